"""`longmemeval inspect`."""

from typing import TYPE_CHECKING, Annotated

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line, option_words
from longmemeval.cli.output import out, print_json, print_json_line, print_table, printable
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ApiBase, ModelOptions, QueryModel
from longmemeval.pipeline.options import Prepared

if TYPE_CHECKING:
    from longmemeval.pipeline.inspect.inspect import Inspection
    from longmemeval.pipeline.inspect.recalling import Recalled
    from longmemeval.records import Recall, RecalledItem, Session


EXAMPLE = "longmemeval inspect smp_4ea7 -m hybrid"


def inspect(
    identifier: Annotated[str, Flag(metavar="ID", help="Question or haystack id.", argument=True)],
    parameters: shared.Parameters,
    places: shared.Places,
    dataset: shared.DatasetName = "sample",
    memory: Annotated[list[str] | None, shared.memory_option("Memory whose recall to show; repeatable.")] = None,
    run: Annotated[list[str] | None, Flag(WHAT, "RUN", "Run whose answer and reasoning to show; repeatable.")] = None,
    session: Annotated[str | None, Flag(WHAT, "ID", "Id of a session to show in full.")] = None,
    everything: Annotated[bool, Flag(OUTPUT, help="Show sessions and stored parts too.", name="--all")] = False,
    with_gold: Annotated[bool, Flag(OUTPUT, help="Show the gold answer and its evidence too.", name="--gold")] = False,
    vectors: Annotated[bool, Flag(OUTPUT, help="Print stored vectors as JSON lines of numbers.")] = False,
    prepared: Prepared = "default",
    query_model: QueryModel = None,
    api_base: ApiBase = None,
    as_json: shared.Json = False,
) -> None:
    """Show what memories retrieve for a question.

    Without --memory, one line for each preset.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.memory.configuration import MEMORIES, resolve_configuration
    from longmemeval.pipeline.inspect import inspect as pipeline
    from longmemeval.pipeline.run import question_analysis

    folders, overrides = places.folders(), parameters.overrides()
    if overrides and not memory:
        again = command_line("inspect", identifier, "--memory", "hybrid", *option_words("--set", overrides))
        raise HarnessError("Parameters need a memory to change", fix=f"Name it: `{again}`")
    names = memory or ([] if run else MEMORIES.built_in)
    configurations = [resolve_configuration(name, overrides) for name in names]
    data = load_dataset(dataset, folders.data_dir)
    if vectors:
        for row in pipeline.stored_vectors(data, identifier, configurations, preparation=prepared, folders=folders):
            print_json_line(row)
        return
    inspection = pipeline.inspect(
        data,
        identifier,
        configurations,
        preparation=prepared,
        folders=folders,
        query_model=question_analysis.QueryModel(query_model, ModelOptions(api_base=api_base)) if query_model else None,
        with_gold=with_gold,
        runs=run or (),
    )
    if as_json:
        print_json(inspection)
        return
    if session is not None:
        _show_session(inspection, session)
        return
    _show_questions(inspection)
    _show_answers(inspection)
    if memory is not None:
        _show_recalls(inspection)
    elif run is None:
        _show_recall_table(inspection)
    if everything:
        _show_sessions(inspection)
        _show_stored(inspection)
    elif not inspection.stored:
        out.print("Not prepared yet.")
    if memory is None and run is None and not everything:
        words = ["inspect", identifier, *([] if dataset == "sample" else ["--dataset", dataset])]
        out.next(
            (command_line(*words, "--memory", "hybrid", places=places), "all that one memory retrieves"),
            (command_line(*words, "--all", places=places), "sessions and stored parts too"),
        )


def _show_questions(inspection: "Inspection") -> None:
    for question in inspection.questions[:20]:
        date = printable(question.date_text)
        out.print(f"[bold]{printable(question.question_id)}[/]  {printable(question.text)}  (asked {date})")
    if len(inspection.questions) > 20:
        out.print(f"… and {count_of(len(inspection.questions) - 20, 'more question')} on this haystack")
    for answer in inspection.answers:
        evidence = ", ".join(answer.evidence_sessions) or "none"
        out.print(f"[bold]Answer[/] ({printable(answer.question_type)}): {printable(answer.answer)}")
        out.print(f"[bold]Evidence[/]: {printable(evidence)}")


def _show_answers(inspection: "Inspection") -> None:
    for answer in inspection.runs:
        out.print(f"[bold]{printable(answer.run)}[/]: {printable(answer.hypothesis or answer.error)}")
        _show_reasoning("Reasoning (not judged)", answer.reasoning)
        for said in answer.judgements:
            label = "not evaluated" if said.label is None else "right" if said.label else "wrong"
            reply = said.raw if said.label is not None else said.error or said.raw
            out.print(f"[bold]{printable(said.judge_id)}[/]: {label}: {printable(reply)}")
            _show_reasoning("Reasoning of the judge", said.reasoning)


def _show_reasoning(title: str, text: str) -> None:
    if text:
        out.print(f"[dim]{title}:[/] {printable(text)}")


def _show_sessions(inspection: "Inspection") -> None:
    columns: list[Column[tuple[int, Session]]] = [
        Column("#", lambda row: row[0]),
        Column("session", lambda row: row[1].session_id, "text"),
        Column("date", lambda row: row[1].date_text, "text"),
        Column("turns", lambda row: len(row[1].turns)),
        Column("begins", lambda row: _brief(_opening(row[1])), "prose"),
    ]
    title = f"Haystack {inspection.haystack_id}: {count_of(len(inspection.sessions), 'session')}"
    print_table(tabulate(title, columns, enumerate(inspection.sessions, start=1)))


def _opening(session: "Session") -> str:
    return session.turns[0].content if session.turns else ""


def _show_session(inspection: "Inspection", session_id: str) -> None:
    for session in inspection.sessions_of(session_id):
        out.print(f"[bold]{printable(session.session_id)}[/]  {printable(session.date_text)}")
        for turn in session.turns:
            out.print(f"[bold]{printable(turn.speaker or turn.role)}:[/] {printable(turn.content)}\n")


def _show_stored(inspection: "Inspection") -> None:
    if not inspection.stored:
        out.print("Not prepared yet.")
    for preparation in inspection.stored:
        parts = ", ".join(preparation.parts) or "none"
        out.print(
            f"Prepared as '{printable(preparation.preparation)}' in {printable(preparation.folder)}: parts {parts}"
        )
        for part, text in preparation.shown.items():
            out.print(printable(f"{part}: {text}") if "\n" not in text else f"[bold]{printable(part)}[/]")
            if "\n" in text:
                out.print(printable(text))


def _show_recall_table(inspection: "Inspection") -> None:
    columns: list[Column[Recalled]] = [
        Column("memory", lambda row: row.memory, "text"),
        Column("messages", lambda row: _messages(row.recall) if row.recall else None),
        Column("tokens", lambda row: row.recall.tokens if row.recall else None),
        Column("best hits", lambda row: _best_hits(row.recall) if row.recall else row.problem, "prose"),
    ]
    print_table(tabulate("What each configuration would recall", columns, inspection.recalled))


def _show_recalls(inspection: "Inspection") -> None:
    for recalled in inspection.recalled:
        out.print(f"[bold]{printable(recalled.memory)}[/]")
        if recalled.recall is None:
            out.print(printable(recalled.problem))
            continue
        for item in recalled.recall.items:
            out.print(_item_line(item))
        for note in recalled.recall.notes:
            out.print(f"Note: {printable(note)}")


def _item_line(item: "RecalledItem") -> str:
    date = f"{item.date:%Y-%m-%d %H:%M}" if item.date else ""
    rank = f" #{item.rank} ({item.score:.3f})" if item.rank is not None and item.score is not None else ""
    source = ", ".join(item.message_ids) or item.kind
    utterance = f"{printable(item.speaker or item.kind)}: {printable(item.text)}"
    return f"[dim]{date} {printable(source)}[/][bold]{rank}[/] {utterance}"


def _messages(recall: "Recall") -> int:
    return sum(item.kind == "message" for item in recall.items)


def _best_hits(recall: "Recall") -> str:
    ranked = sorted((item for item in recall.items if item.rank is not None), key=lambda item: item.rank or 0)
    return "; ".join(f"{item.score or 0:.2f} {_brief(item.text, 40)}" for item in ranked[:3])


def _brief(text: str, length: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length].rpartition(" ")[0] + " …"
