"""What `typed-nodes` recalls: entries beside messages, under a budget of what is rendered."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.event_loop import complete
from longmemeval.dataset import Dataset
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.memory.nodes.node_memory import TYPED_NODES
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.reading.prompts import message_chunks, render_history
from longmemeval.records import Question, Recall
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from tests.support import record, write_dataset

count = CharacterCounter().count
TOPICS = ["kayak", "violin", "cactus", "bakery", "telescope", "camera", "tent", "piano", "drone", "canoe"]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    sessions = [
        [
            {
                "role": "user",
                "content": f"I bought a {topic} last week. It was a bargain. Any good shop for it?",
            },
            {
                "role": "assistant",
                "content": f"There are many shops for a {topic}. " + "They all have their merits. " * 5,
            },
        ]
        for topic in TOPICS
    ]
    dates = [f"2023/{month:02}/15 (Mon) 10:00" for month in range(1, 11)]
    ids = [f"answer_{number}" for number in range(10)]
    one = record(haystack_sessions=sessions, haystack_session_ids=ids, haystack_dates=dates, answer_session_ids=ids[:1])
    return load_dataset(write_dataset(tmp_path / "d.json", one))


@pytest.fixture
def fixture(dataset: Dataset, folders: Folders) -> Fixture:
    prepare(dataset, ["typed-nodes"], options=PrepareOptions(jobs=1, embedder="hashing:64"), folders=folders)
    return Fixture.open(folders.prepared_dir / "d/default/q1")


def recalled(fixture: Fixture, text: str, *overrides: str) -> Recall:
    from longmemeval.embedding.registry import load_embedder

    embedder = load_embedder("hashing:64")
    tools = MemoryTools(embed_query=lambda query: embedder.embed([query])[0], count_tokens=count)
    parameters: Any = TYPED_NODES.parameters.model_validate(resolve_configuration("typed-nodes", overrides).parameters)
    question = Question("q1", text, datetime(2023, 12, 1), "2023/12/01", "q1")
    return complete(TYPED_NODES.build(parameters, tools).recall(question, fixture))


def facts(recall: Recall) -> list[str]:
    return [item.text for item in recall.items if item.kind == "fact"]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [60, 150, 300, 600])
@pytest.mark.parametrize("share", [0, 0.3, 0.7, 1])
def test_what_is_rendered_keeps_to_the_budget(fixture: Fixture, budget: int, share: float) -> None:
    recall = recalled(fixture, "What did I buy?", f"budget={budget}", f"entry_share={share}", "entries=50", "top_k=50")
    assert count(render_history(recall, message_chunks(recall), "nl")) <= budget
    assert recall.items
    assert bool(facts(recall)) == (share > 0)
    if budget > 60:  # Else no message fits its share.
        assert any(item.kind == "message" for item in recall.items) == (share < 1)
    assert bool(recall.left_out_ids) == (share < 1)


def test_a_question_that_names_a_time_finds_the_entries_of_that_time(fixture: Fixture) -> None:
    march = recalled(fixture, "What did I buy in March 2023?", "entry_share=1")
    assert march.items
    assert all("cactus" in text for text in facts(march))
    others = recalled(fixture, "What did I buy in March 2023?", "entry_share=1", "entry_time=off")
    assert any("cactus" not in text for text in facts(others))
    boosted = recalled(fixture, "What did I buy in March 2023?", "entry_share=1", "entry_time=boost", "entries=50")
    ranks = {item.text: item.rank or 0 for item in boosted.items}
    assert max(rank for text, rank in ranks.items() if "cactus" in text) < min(
        rank for text, rank in ranks.items() if "cactus" not in text
    )


def test_every_entry_says_where_it_is_from_and_may_show_what_proves_it(fixture: Fixture) -> None:
    recall = recalled(fixture, "Do I have a telescope?", "entry_share=1", "show_evidence=true")
    best = min(recall.items, key=lambda item: item.rank or 99)
    assert best.message_ids == ("answer_4:0",)
    assert best.thread_ids == ("answer_4",)
    assert '("I bought a telescope last week.")' in best.text
    assert recall.provenance == "message"


def test_an_entry_tells_what_no_message_beside_it_tells(fixture: Fixture) -> None:
    recall = recalled(fixture, "What did I buy?", "entries=50", "top_k=50")
    assert all("last week" in text for text in facts(recall))
    assert all("(20" in text or "since" in text for text in facts(recall))


def test_no_entries_leave_the_messages_and_no_messages_the_entries(fixture: Fixture) -> None:
    assert {item.kind for item in recalled(fixture, "What did I buy?", "entries=0").items} == {"message"}
    assert {item.kind for item in recalled(fixture, "What did I buy?", "entry_share=1").items} == {"fact"}
