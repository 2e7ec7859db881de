"""Prompts can be larger than memory: `verify` and `report` read them one at a time."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import Answer
from longmemeval.report.write import ReportOptions, write_report
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import grade
from tests.pipeline.helpers import colours, folders_in
from tests.report.report_runs import full_run, prompt

T = TypeVar("T")

QUESTIONS = 30
LETTERS = 1_000_000
"""Of each prompt: the file has 30 MB."""
ROOM = 8_000_000
"""Bytes of memory: enough for a few prompts as line, text and hashed JSON, not for ten."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The folders of run `r`, which answered 30 questions with prompts of a million letters."""
    path = tmp_path_factory.mktemp("large")
    folders, dataset = folders_in(path), colours(path / "d.json", QUESTIONS)
    questions = {question.question_id: question for question in dataset.questions()}
    folder = full_run(dataset, folders, "r", dict.fromkeys(questions, True))
    lines = (folder / "answers.jsonl").read_bytes().splitlines()
    answers = [msgspec.json.decode(line, type=Answer) for line in lines]
    with (folder / "answers.jsonl").open("wb") as stored, (folder / "prompts.jsonl").open("wb") as prompts:
        for answer in answers:
            sent = prompt(questions[answer.question_id], f"{answer.question_id} " + "a word " * (LETTERS // 7))
            stored.write(msgspec.json.encode(msgspec.structs.replace(answer, prompt_sha256=sent.sha256)) + b"\n")
            prompts.write(msgspec.json.encode(sent) + b"\n")
    grade(dataset, folders, "r", dict.fromkeys(questions, True))
    return folders


def peak(work: Callable[[], T]) -> tuple[T, int]:
    """The result of `work`, and the most bytes it held at one time."""
    work()  # imports, and what is kept for the next time
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_verify_holds_one_prompt_at_a_time(folders: Folders) -> None:
    verification, held = peak(lambda: verify("r", folders=folders))
    assert not [problem for problem in verification.problems if "prompts.jsonl" in problem]
    assert verification.checked > 2 * QUESTIONS
    assert held < ROOM


@pytest.mark.thorough
@pytest.mark.slow
def test_report_holds_one_prompt_at_a_time(folders: Folders, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    _, held = peak(lambda: write_report(["r"], page, folders=folders))
    assert held < ROOM
    assert "Prompts are cut to about" in page.read_text()
    write_report(["r"], page, options=ReportOptions(full=True), folders=folders)
    assert page.stat().st_size > QUESTIONS * LETTERS
