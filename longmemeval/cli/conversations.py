"""`longmemeval datasets import` and `datasets label`: datasets from your own conversations."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import Json
from longmemeval.cli.output import err, out, print_json, printable
from longmemeval.core.options import OUTPUT, WHAT, Flag


def import_chats(
    exports: Annotated[
        list[Path], typer.Argument(metavar="EXPORT", help="ChatGPT or Claude export, message list, or CSV; repeatable.")
    ],
    output: Annotated[Path, Flag(OUTPUT, "FOLDER", "Folder of the dataset to write.")],
    questions: Annotated[
        Path | None,
        Flag(WHAT, "FILE", "YAML or JSON list of questions and answers."),
    ] = None,
    date: Annotated[
        datetime | None,
        Flag(WHAT, "DATE", "Date of messages that have none."),
    ] = None,
    json: Json = False,
) -> None:
    """Make a dataset from exported conversations.

    All exports together are one person's history; the messages of one conversation on one day are a session.
    """
    from longmemeval.benchmarks.conversations import importing

    done = importing.import_chats(exports, output, questions=questions, date=date)
    if json:
        print_json(done)
        return
    out.print(
        f"{done.sessions:,} sessions with {done.messages:,} messages, {done.first:%Y-%m-%d} to {done.last:%Y-%m-%d}, "
        f"and {done.questions:,} questions: {printable(done.folder)}"
    )
    for title, counts in (("Left out", done.left_out), ("Can mislead", done.misleading)):
        for what, count in counts.items():
            out.print(printable(f"{title}: {count:,} {what}"))
    if not done.questions:
        out.print(printable(f"Write questions into {output / 'questions.yaml'}: a list of `question:` and `answer:`."))
    err.next((command_line("datasets", "label", str(output)), "choose the evidence, to measure recall"))


def label_evidence(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Dataset that `datasets import` wrote.")],
    top: Annotated[int, Flag(WHAT, "N", "Number of messages to propose.", minimum=1)] = 5,
) -> None:
    """Choose the evidence for questions from proposed messages.

    Recall is measured against it. Label before you prepare: labels belong to the data.
    """
    from longmemeval.benchmarks.conversations.importing import accept, proposals

    labelled = 0
    for proposal in proposals(folder, top):
        question = proposal.asked
        out.print(printable(f"\n{question.question}  [{question.answer}]"))
        for number, message in enumerate(proposal.messages, start=1):
            text = " ".join(message.content.split())
            shown = text if len(text) <= 160 else f"{text[:160]} …"
            out.print(printable(f"  {number}  {message.created_at:%Y-%m-%d} {message.role}: {shown}"))
        chosen = _numbers(len(proposal.messages))
        if chosen is None:
            break
        accept(folder, question.id, [proposal.messages[number - 1].message_id for number in chosen])
        labelled += 1
    out.print(f"Labelled {labelled} questions in {printable(str(folder / 'evidence.json'))}.")
    err.next((command_line("prepare", "--dataset", str(folder), "--memory", "hybrid"), "ingest it"))


def _numbers(most: int) -> list[int] | None:
    """Return the typed numbers, none for an empty line; None to stop."""
    while True:
        typed = typer.prompt("Evidence (such as 1 3; Enter: none of them; q: stop)", default="", show_default=False)
        if typed.strip() == "q":
            return None
        words = typed.replace(",", " ").split()
        if all(word.isdigit() and 1 <= int(word) <= most for word in words):
            return [int(word) for word in words]
        err.print(f"Type numbers from 1 to {most}.")
