"""Graded runs with everything a report can show: recalled and cut messages, prompts, costs, several judges."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.files import sha256_bytes
from longmemeval.dataset import Dataset
from longmemeval.llm.protocol import ChatMessage
from longmemeval.reading.prompts import SentPrompt
from longmemeval.records import Answer, Question, Usage
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import LENIENT, Credit, grade, graded_run
from tests.pipeline.helpers import colour_record, folders_in
from tests.support import write_dataset

HOSTILE = (
    '<script>window.harmed = 1</script></script><img src=x onerror="window.harmed = 1">\' " `${1}` & &lt; {{ 7 * 7 }} '
    "$x_1$ %s \u2028 \u2029 \u202e \x00 \x07 \x1b[31m \\"
)
"""What must be shown word for word and never obeyed."""


def replace_answers(folder: Path, answer_of: Callable[[str], Answer]) -> None:
    """Give a run other answers than `graded_run` made."""
    ids = msgspec.json.decode((folder / "run.json").read_bytes())["question_ids"]
    lines = [msgspec.json.encode(answer_of(question_id)) + b"\n" for question_id in ids]
    (folder / "answers.jsonl").write_bytes(b"".join(lines))


def prompt(question: Question, text: str) -> SentPrompt:
    """A prompt of one message, as `run` stores it."""
    messages = (ChatMessage("user", text),)
    return SentPrompt(question.question_id, "answer", messages, sha256_bytes(msgspec.json.encode(messages)))


def full_run(
    dataset: Dataset,
    folders: Folders,
    run_id: str,
    credits: Mapping[str, Credit],
    *,
    recall: tuple[str, ...] = ("filler_1:0", "answer_1:0", "answer_1:1"),
    cut: tuple[str, ...] = ("filler_2:0",),
    cost: float = 0.01,
    tokens: int = 100,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """A run that recalled `recall` for every question and cut `cut`, with prompts, latencies, costs and scores."""
    folder = graded_run(dataset, folders, run_id, credits, settings=settings)
    questions = {question.question_id: question for question in dataset.questions()}
    prompts = {name: prompt(questions[name], f"PROMPT {run_id} {questions[name].text}") for name in credits}
    places = {name: place for place, name in enumerate(credits)}

    def answer(question_id: str) -> Answer:
        place = places[question_id]
        return Answer(
            question_id=question_id,
            hypothesis=f"answer {place} of {run_id}",
            status="ok",
            recall_ids=recall,
            cut_ids=cut,
            top_score=0.1 * (place % 10),
            prompt_tokens=tokens,
            prompt_sha256=prompts[question_id].sha256,
            usage=Usage(calls=1, prompt_tokens=tokens, completion_tokens=5, cost_usd=cost / len(credits)),
            attempts=1,
            notes=("drop-oldest: 1 message",) if place == 0 else (),
            latency_ms=100.0 * (place + 1),
        )

    replace_answers(folder, answer)
    (folder / "prompts.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in prompts.values()))
    grade(dataset, folders, run_id, credits)
    return folder


def memory(name: str, **others: object) -> dict[str, Any]:
    """Settings of a run with a memory of that name."""
    return {"memory": {"name": name, "preset": "last-k", "parameters": {}}, **others}


def three_runs(path: Path, *, repeats: bool = True) -> Folders:
    """12 questions, the last one unanswerable. `good` is right on all but the last, `bad` on none, `good-again` repeats
    `good` (without `repeats` it is another memory) and is right on three; two judges grade `good` and differ on one
    question."""
    dataset, folders = _dataset(path / "colours.json"), folders_in(path)
    ids = [question.question_id for question in dataset.questions()]
    good = dict.fromkeys(ids, True) | {ids[-1]: False}
    full_run(dataset, folders, "good", good, settings=memory("semantic", **({"repeat": 1} if repeats else {})))
    twice = memory("semantic", repeat=2) if repeats else memory("good-again")
    again = dict.fromkeys(ids, False) | dict.fromkeys(ids[:3], True)
    full_run(dataset, folders, "good-again", again, cost=0.02, tokens=300, settings=twice)
    nothing: dict[str, Credit] = dict.fromkeys(ids, False)
    full_run(
        dataset,
        folders,
        "bad",
        nothing | {ids[0]: None},
        recall=("filler_1:0",),
        cut=("answer_1:0",),
        cost=0.04,
        tokens=900,
        settings=memory("last-k"),
    )
    grade(dataset, folders, "good", good | {ids[0]: False}, judge=LENIENT)
    return folders


def many_runs(path: Path, number: int) -> Folders:
    """Runs of as many memories over 12 questions, each right on some more of them than the one before."""
    dataset, folders = _dataset(path / "colours.json"), folders_in(path)
    ids = [question.question_id for question in dataset.questions()]
    for place in range(number):
        credits: dict[str, Credit] = {one: at < place % 12 for at, one in enumerate(ids)}
        name = f"semantic-memory-{place:02}"
        full_run(dataset, folders, f"run-{place:02}", credits, tokens=100 * (place + 1), settings=memory(name))
    return folders


def eight_of_a_sweep(path: Path) -> Folders:
    """The runs of a sweep over memories, a parameter and reading methods, with names and ids as long as sweeps give."""
    dataset, folders = _dataset(path / "colours.json"), folders_in(path)
    ids = [question.question_id for question in dataset.questions()]
    names = ("full-history", "bm25", "hybrid top_k=5 message_range=0", "hybrid top_k=10 message_range=0")
    for place, name in enumerate(names):
        for method in ("direct", "con"):
            credits: dict[str, Credit] = {one: at % 4 < place for at, one in enumerate(ids)}
            preset = name.partition(" ")[0]
            settings = {
                "memory": {"name": name, "preset": preset, "parameters": {}},
                "reading": {"method": method, "history_format": "nl"},
            }
            run_id = f"grid_{name.replace(' ', '-').replace('=', '-')}_openai-gpt-4o-mini_{method}"
            full_run(dataset, folders, run_id, credits, tokens=123_456 - 10_000 * place, settings=settings)
    return folders


def _dataset(path: Path) -> Dataset:
    types = ("single-session-user", "multi-session", "temporal-reasoning")
    records = [colour_record(number, question_type=types[number % 3]) for number in range(11)]
    return LongMemEvalDataset(write_dataset(path, *records, colour_record(11, question_id="q11_abs")))


def _answer_to(said: Answer, question_id: str) -> Answer:
    return msgspec.structs.replace(said, question_id=question_id)


def hostile_run(path: Path) -> Folders:
    """Two questions whose every text is `HOSTILE`, session ids, memory and model included."""
    sessions = [
        [{"role": "user", "content": HOSTILE, "has_answer": True}, {"role": "assistant", "content": HOSTILE}],
    ]
    changes = {
        "question": HOSTILE,
        "answer": HOSTILE,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": [HOSTILE],
        "answer_session_ids": [HOSTILE],
        "haystack_sessions": sessions,
    }
    records = [colour_record(number, question_id=f"{number}<b onclick='x'>&amp;", **changes) for number in (1, 2)]
    dataset, folders = LongMemEvalDataset(write_dataset(path / "hostile.json", *records)), folders_in(path)
    ids = [question.question_id for question in dataset.questions()]
    shown, kept_out = (f"{HOSTILE}:0",), (f"{HOSTILE}:1",)
    for run_id, label in (("one", True), ("two", False)):
        credits: dict[str, Credit] = dict.fromkeys(ids, label)
        settings = memory(HOSTILE + run_id, model={"spec": HOSTILE}, embedder={"spec": HOSTILE})
        folder = full_run(dataset, folders, run_id, credits, recall=shown, cut=kept_out, settings=settings)
        said = Answer("", HOSTILE, "ok", shown, kept_out, notes=(HOSTILE,), shown_reasoning=HOSTILE)
        replace_answers(folder, partial(_answer_to, said))
        grade(dataset, folders, run_id, credits)
    return folders


def large_run(path: Path, questions: int = 500, recalled: int = 25) -> Folders:
    """A run of the size of LongMemEval_S: `recalled` of 60 messages of 1,200 letters, prompts of 40,000 letters."""
    records = []
    for number in range(questions):
        sessions = [
            [{"role": "user", "content": f"{number} {place} {turn} " + "word " * 240} for turn in range(20)]
            for place in range(3)
        ]
        records.append(colour_record(number, haystack_sessions=sessions, question=f"What about {number}? " * 4))
    dataset, folders = LongMemEvalDataset(write_dataset(path / "large.json", *records)), folders_in(path)
    asked = {question.question_id: question for question in dataset.questions()}
    credits: dict[str, Credit] = dict.fromkeys(asked, True)
    folder = graded_run(dataset, folders, "large", credits)
    prompts = {name: prompt(question, f"{name} " + "history " * 5_000) for name, question in asked.items()}
    (folder / "prompts.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in prompts.values()))
    ids = [f"{name}:{turn}" for name in ("filler_1", "answer_1", "filler_2") for turn in range(20)]
    first = Answer(
        question_id="",
        hypothesis="a long answer " * 60,
        status="ok",
        recall_ids=tuple(ids[:recalled]),
        cut_ids=tuple(ids[recalled : recalled + 12]),
        prompt_tokens=10_000,
        latency_ms=5.0,
        attempts=1,
    )
    replace = msgspec.structs.replace
    replace_answers(folder, lambda name: replace(first, question_id=name, prompt_sha256=prompts[name].sha256))
    grade(dataset, folders, "large", credits)
    return folders
