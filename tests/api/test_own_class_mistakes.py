"""A class of the user that raises or returns wrong things: `run` says what is wrong, and stops nothing that works."""

import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import longmemeval as lme
from longmemeval.errors import ModelError, RecallError
from longmemeval.pipeline.workers import ENOUGH_OF_A_CLASS, AllFailedError, Outcomes
from tests.pipeline.helpers import MODEL, colours, folders_in
from tests.support import json_lines

OFFLINE = "offline/lexical"
LINES = """\
class Notes:
    def __init__(self): self.kept = []
    def add(self, session): {add}
    def search(self, {arguments}):
        {search}
"""
ADD = "self.kept += [m.content for m in session.messages]"


def notes(folder: Path, *, search: str = "return self.kept", add: str = ADD, arguments: str = "") -> type:
    """The class of a script of the user, `notes.py`."""
    code = LINES.format(search=search, add=add, arguments=arguments or "query, *, date, limit")
    known: dict[str, Any] = {"__name__": "__main__"}
    FunctionType(compile(code, str(folder / "notes.py"), "exec"), known)()
    found: type = known["Notes"]
    return found


@pytest.mark.parametrize(
    ("made", "cause", "told"),
    [
        ({"search": "return {}['x']"}, KeyError, "notes.py, line 5: KeyError: 'x'. Correct Notes and run again."),
        ({"add": "session.nothing"}, AttributeError, "notes.py, line 3: AttributeError: 'Session' object has no"),
        (
            {"arguments": "query"},
            TypeError,
            "notes.py, line 4: TypeError: Notes.search() got an unexpected keyword argument 'date'; "
            "define it as search(self, query, *, date, limit)",
        ),
        (
            {"search": "return [{'txt': 'x'}]"},
            type(None),
            "notes.py, line 4: a hit has no field 'txt' (did you mean 'text'?); it can have text, ",
        ),
        (
            {"search": "return {'txt': 'x'}"},
            type(None),
            "notes.py, line 4: search returned a dict; return a list of hits",
        ),
        ({"search": "return None"}, type(None), "notes.py, line 4: search returned None; return a list of hits"),
        (
            {"search": "return [{'text': 'x', 'message_ids': ['m_17']}]"},
            type(None),
            "The memory returned a message id that it was not given for this history: 'm_17' (notes.py, line 4). "
            "Return the ids of the messages that add received",
        ),
    ],
)
def test_a_mistake_stops_the_run_after_three_questions(
    made: dict[str, str], cause: type, told: str, tmp_path: Path
) -> None:
    data, folders = colours(tmp_path / "d.json", 8), folders_in(tmp_path)
    with pytest.raises(AllFailedError) as caught:
        lme.run(data, notes(tmp_path, **made), MODEL, name="r", folders=folders)
    assert type(caught.value.__cause__) is cause
    assert re.search(
        r"^Notes failed at the first 3 questions, so the run stopped\. At question q\d: ", str(caught.value)
    )
    assert told in str(caught.value)
    assert len(json_lines(folders.results_dir / "r" / "answers.jsonl")) == ENOUGH_OF_A_CLASS


def test_an_exception_at_preparing_is_the_cause_too(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    saved = notes(tmp_path, add="session.nothing")
    for name in ("save", "load"):
        setattr(saved, name, lambda self, folder: None)
    with pytest.raises(AllFailedError, match=r"notes\.py, line 3: AttributeError") as caught:
        lme.run(data, saved, MODEL, folders=folders)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_class_with_recall_is_the_same(tmp_path: Path) -> None:
    class Mine:
        def __init__(self, parameters: object, tools: object) -> None:
            pass

        async def recall(self, question: object, fixture: object) -> object:
            raise LookupError("nothing")

    data, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    with pytest.raises(AllFailedError, match=r"test_own_class_mistakes\.py, line \d+: LookupError") as caught:
        lme.run(data, Mine, MODEL, folders=folders)
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("number", [1, 2])
def test_fewer_questions_than_three(number: int, tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", number), folders_in(tmp_path)
    with pytest.raises(
        AllFailedError, match=r"Notes failed at the first .* q0: notes\.py, line 4: search returned None"
    ):
        lme.run(data, notes(tmp_path, search="return None"), MODEL, concurrency=1, folders=folders)


def test_one_answer_is_enough_to_go_on_and_failures_are_told_first(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 8), folders_in(tmp_path)
    counted = notes(
        tmp_path, search="Notes.calls = getattr(Notes, 'calls', 0) + 1; assert Notes.calls in (3, 4); return self.kept"
    )
    run = lme.run(data, counted, MODEL, name="flaky", concurrency=1, folders=folders)
    assert run.report
    assert (run.report.answered, run.report.failed) == (2, 6)
    told = "flaky: 6 of 8 questions failed: notes.py, line 5: AssertionError."
    assert " ".join(str(run).split()).startswith(told)
    graded = run.evaluate(OFFLINE)
    assert " ".join(str(graded).split()).startswith(told)
    other = lme.run(data, "bm25", MODEL, folders=folders).evaluate(OFFLINE)
    for runs in ((graded, other), (other, graded)):
        shown = " ".join(str(lme.compare(*runs)).split())
        assert shown.startswith("Notes: 6 of 8 questions failed: notes.py, line 5: AssertionError.")
        assert shown.count("AssertionError") == 1


def test_a_question_whose_model_failed_shows_that_the_class_works() -> None:
    outcomes = Outcomes(False, own_class="Notes", most=9)
    outcomes.add(ModelError("400"), "question q0")
    for number in (1, 2, 3, 4):
        outcomes.add(RecallError("no"), f"question q{number}")
        outcomes.check()


def test_a_run_without_answers_has_no_score(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    with pytest.raises(AllFailedError):
        lme.run(data, notes(tmp_path, search="return None"), MODEL, name="r", folders=folders)
    failed = lme.Run.open("r", folders=folders)
    told = "Run 'r' has no answers, so it has no score. Notes failed at the first 3 questions"
    with pytest.raises(lme.HarnessError, match=told):
        failed.evaluate(OFFLINE)
    with pytest.raises(lme.HarnessError, match=told):
        lme.compare(failed, folders=folders)
    # The name may be used for the corrected class.
    again = lme.run(data, notes(tmp_path), MODEL, name="r", folders=folders)
    assert (again.report and again.report.answered, again.status, again.manifest.error) == (4, "completed", "")
    aside = folders.results_dir / "r" / "without-answers" / "1"
    assert len(json_lines(aside / "answers.jsonl")) == 3
    assert lme.verify(again).problems == ()
    assert again.evaluate(OFFLINE).metrics.overall.not_evaluated == 0
