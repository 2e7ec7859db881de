"""What a history says, asked from Python: read by rules and as prepared."""

from datetime import datetime
from pathlib import Path

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.pipeline.inspect.facts import HistoryFacts
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.prepare.prepare import prepare
from tests.pipeline.helpers import folders_in
from tests.support import record, write_dataset

SAID = ("I live in Ghent. My favourite colour is <green>.", "I moved to Lille yesterday.")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return LongMemEvalDataset(
        write_dataset(
            tmp_path / "d.json",
            record(
                question_date="2024/04/01 (Mon) 10:00",
                haystack_dates=["2024/03/04 (Mon) 09:00", "2024/03/14 (Thu) 09:00"],
                haystack_session_ids=["s1", "s2"],
                answer_session_ids=["s1"],
                haystack_sessions=[[{"role": "user", "content": text}] for text in SAID],
            ),
        )
    )


def homes(history: HistoryFacts, as_of: datetime | None = None) -> list[str]:
    return [fact.object for fact in history.facts(predicate="home", as_of=as_of)]


def test_the_same_is_said_by_rules_and_from_a_fixture(dataset: Dataset, tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    with pytest.raises(FixtureError):
        HistoryFacts(dataset, "q1", prepared="default", folders=folders)
    prepare(dataset, ["engram-full"], options=PrepareOptions(jobs=1), folders=folders)
    for prepared in (None, "default"):
        history = HistoryFacts(dataset, "q1", prepared=prepared, folders=folders)
        assert homes(history) == ["Ghent", "Lille"]
        assert homes(history, datetime(2024, 3, 10)) == ["Ghent"]
        (profile,) = history.about(None, None).profiles(as_of=datetime(2024, 3, 10))
        assert [trait.predicate for trait in profile.traits] == ["home", "favourite:colour"]


def test_names_that_no_fact_has_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    history = HistoryFacts(dataset, "q1", prepared=None, folders=folders_in(tmp_path))
    for ask in (history.facts, history.about):
        with pytest.raises(HarnessError, match="Did you mean 'user'"):
            ask("usr", None)
        with pytest.raises(HarnessError, match="Did you mean 'home'"):
            ask(None, "homes")
    with pytest.raises(HarnessError, match="no question or haystack 'q2'"):
        HistoryFacts(dataset, "q2", prepared=None, folders=folders_in(tmp_path))


def test_drawings_end_at_the_last_message_or_when_asked(dataset: Dataset, tmp_path: Path) -> None:
    history = HistoryFacts(dataset, "q1", prepared=None, folders=folders_in(tmp_path))
    facts = history.facts()
    assert "<title>Facts from 2024-03-04 to 2024-03-14</title>" in history.drawn(facts, "svg")
    assert "to 2024-03-20</title>" in history.drawn(facts, "svg", datetime(2024, 3, 20))
    assert history.drawn(facts, "mermaid").startswith("gantt\n")
    assert "1970-01-01" in history.drawn([], "svg", datetime(1970, 1, 1))
