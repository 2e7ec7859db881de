"""`retrieval --twice`: a memory that recalls otherwise the second time is found out, no other is accused."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Difference
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport, differences_of
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.records import Recall, RecalledItem
from longmemeval.report.tables.retrieval import retrieval_document, retrieval_footnotes
from longmemeval.results.graded.graded_run import load_graded
from tests.memory.external.transported import SERVE
from tests.pipeline.helpers import answer_all, checked, colours, folders_in, prepared_colours
from tests.support import json_lines, longmemeval

MEMORIES = """
class Steady:
    capabilities = {"models": "none"}

    def __init__(self):
        self.stored, self.asked = [], 0

    def add(self, session):
        self.stored += [{"text": m.content, "message_ids": [m.id]} for m in session.messages]

    def search(self, query, *, date, limit):
        return self.stored[:3]

class Wobbly(Steady):
    def search(self, query, *, date, limit):
        self.asked += 1
        return self.stored[self.asked % 2:][:3]

class Shuffling(Steady):
    def search(self, query, *, date, limit):
        self.asked += 1
        return self.stored[:3][::1 if self.asked % 2 else -1]

class Rewording(Steady):
    def search(self, query, *, date, limit):
        self.asked += 1
        return [{**hit, "text": f"{hit['text']} ({self.asked})"} for hit in self.stored[:3]]
"""


def asked_twice(folder: Path, name: str, *, jobs: int = 1) -> RetrievalReport:
    """Of six questions, by a memory in a process of its own."""
    (folder / "memories.py").write_text(MEMORIES)
    data, folders = colours(folder / "c.json", 6), folders_in(folder)
    memory = resolve_configuration(f"process:{SERVE} memories:{name}")
    prepare(data, [memory], options=PrepareOptions(jobs=1), folders=folders)
    options = RetrievalOptions(run_id="r", twice=True, jobs=jobs)
    report = retrieve(data, [memory], options=options, folders=folders)
    assert all(outcome is None for outcome in checked(folders.results_dir / "r", data))
    return report


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("Wobbly", "ids"), ("Shuffling", "order"), ("Rewording", "text")])
def test_a_memory_that_changes_its_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, found: Difference
) -> None:
    monkeypatch.chdir(tmp_path)
    (run,) = asked_twice(tmp_path, name).runs
    assert run.asked_twice is not None
    assert (run.asked_twice.n, run.asked_twice.changed, run.asked_twice.by_difference) == (6, 6, {found: 6})
    (warning,) = [one for one in run.warnings if one.code == "unstable-recall"]
    assert warning.text.startswith("Repeating the same query changed the result for 6 of 6 questions, 100.0% (")
    assert [line["second"] for line in json_lines(Path(run.folder) / "rankings.jsonl")] == [[found]] * 6


@pytest.mark.slow
def test_a_memory_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (run,) = asked_twice(tmp_path, "Steady", jobs=2).runs
    assert run.asked_twice is not None
    assert (run.asked_twice.n, run.asked_twice.changed) == (6, 0)
    assert not [one for one in run.warnings if one.code == "unstable-recall"]


@pytest.mark.slow
def test_a_score_by_such_a_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "memories", None)
    asked_twice(tmp_path, "Wobbly")
    data, folders = colours(tmp_path / "c.json", 6), folders_in(tmp_path)
    prepare(data, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    wobbly = resolve_configuration(f"process:{SERVE} memories:Wobbly")
    for run_id, memory in (("wobbly", wobbly), ("other", resolve_configuration("last-k"))):
        answer_all(data, folders, run_id, memory=memory)
        evaluate(run_id, options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    told = {
        run.manifest.run_id: [one.text for one in run.summary.warnings if one.code == "unstable-recall"]
        for run in load_graded(["wobbly", "other"], folders)
    }
    assert told["other"] == []
    assert told["wobbly"][0].startswith("Repeating the same query changed the result for 6 of 6 questions")


def test_the_command(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 6, "bm25")
    retrieve(data, ["bm25"], options=RetrievalOptions(run_id="a"), folders=folders)
    shown = longmemeval("retrieval", "-d", data.path, "-m", "bm25", "--run-id", "b", "--twice", cwd=tmp_path).stdout
    assert "bm25: Repeating the same query did not change the result for any of 6 questions." in shown
    again, late = (
        retrieve(data, ["bm25"], options=RetrievalOptions(run_id=run_id, twice=True), folders=folders)
        for run_id in "ba"
    )
    (result,) = json.loads(msgspec.json.encode(retrieval_document(again)))["results"]
    assert result["asked_twice"] == {"n": 6, "changed": 0, "by_difference": {}}
    # Three sessions a history: five best are all of them.
    assert [one["code"] for one in result["warnings"]] == ["history-fits"]
    told = "a: 6 questions were ranked earlier without --twice; use another --run-id to repeat every query."
    assert told in retrieval_footnotes(late)
    assert "asked_twice" not in str(retrieval_document(late))


def test_rankers_of_an_official_protocol_are_not_asked(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 2)
    with pytest.raises(HarnessError, match="Leave out --twice"):
        retrieve(data, ["bm25"], options=RetrievalOptions(protocol="official", twice=True), folders=folders)


def item(text: str, *message_ids: str, kind: str = "message") -> RecalledItem:
    return RecalledItem("fact" if kind == "fact" else "message", text, None, message_ids=message_ids)


@pytest.mark.parametrize(
    ("first", "again", "found"),
    [
        ([], [], ()),
        ([item("a", "1"), item("b", "2")], [item("a", "1"), item("b", "2")], ()),
        ([item("a", "1"), item("b", "2")], [item("b", "2"), item("a", "1")], ("order",)),
        ([item("a", "1")], [item("a", "1"), item("b", "2")], ("ids",)),
        ([item("a", "1")], [], ("ids",)),
        ([item("a", "1")], [item("A", "1")], ("text",)),
        ([item("a", "1"), item("b", "2")], [item("B", "2"), item("a", "1")], ("order", "text")),
        ([item("a", "1"), item("b", "2")], [item("A", "1"), item("c", "3")], ("ids", "text")),
        ([item("a")], [item("b")], ("ids",)),
        ([item("a", "1"), item("b", "1")], [item("b", "1"), item("a", "1")], ()),
        ([item("a", "1")], [item("a", "1", kind="fact")], ("ids",)),
    ],
)
def test_what_differs(first: list[RecalledItem], again: list[RecalledItem], found: tuple[Difference, ...]) -> None:
    assert differences_of(Recall(tuple(first)), Recall(tuple(again))) == found
