"""What each preset recalls from a history of twelve messages whose similarities to the question are written down."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.arrays import Vectors
from longmemeval.core.event_loop import complete
from longmemeval.core.part_options import PartOptions
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.llm.offline import ExtractiveModel
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.configuration import MEMORIES, build_memory, parts_of, resolve_configuration
from longmemeval.memory.items import Hit, items_at
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.pipeline.prepare.build import FixtureTask, Tools, ToolSettings, build_fixture
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.prepare.recipes import PlannedPart
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.reading.configuration import reading_configuration
from longmemeval.reading.options import HISTORY_FORMATS
from longmemeval.reading.reader import Reader
from longmemeval.records import DatasetIdentity, FixtureMeta, Gold, Haystack, Question, Recall, Session, Turn
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import FixtureEmbedder, Part, PartInput
from tests.models import ByLength
from tests.support import record, write_dataset

PARTS: tuple[Part[Any], ...] = (MESSAGES, DOCUMENT, VECTORS)
ASKED = datetime(2023, 6, 1, 12, 0)
QUESTION = Question("q1", "Where do I live?", ASKED, "2023/06/01 (Thu) 12:00", "h")


def session(name: str, day: int, *texts: str) -> Session:
    turns = tuple(Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(texts))
    return Session(name, datetime(2023, 5, day, 9, 30), "", turns)


# A session that comes twice gives the threads s1 and s1#2.
HAYSTACK = Haystack(
    "h",
    (
        session("s1", 1, "Hello.", "Hi!", "I live in Boston."),
        session("s2", 2, "What is new?", "Not much.", "Boston is cold.", "Indeed."),
        session("s1", 2, "Hello again.", "Hi!"),
        session("s3", 3, "My city is Boston, as ever.", "Good.", "Bye."),
    ),
)
IDS = ["s1:0", "s1:1", "s1:2", "s2:0", "s2:1", "s2:2", "s2:3", "s1#2:0", "s1#2:1", "s3:0", "s3:1", "s3:2"]
# Cosine similarity of each message to the question. The best four: s1:2, s2:2, s3:0, s2:3.
SIMILARITIES = [0.1, 0.2, 0.95, 0.0, -0.5, 0.9, 0.3, -0.1, -0.2, 0.4, -0.3, 0.15]


def direction(similarity: float) -> list[float]:
    """The unit vector whose cosine with (1, 0) is `similarity`."""
    return [similarity, float(np.sqrt(1 - similarity**2))]


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    tools = ToolSettings(PartOptions(), FixtureEmbedder("by hand", "by hand"))
    vectors = np.array([direction(similarity) for similarity in SIMILARITIES], np.float32)
    folder = tmp_path_factory.mktemp("fixture")

    def build(meta: FixtureMeta | None, parts: Sequence[Part[Any]], rows: dict[str, Vectors]) -> Fixture:
        planned = tuple(PlannedPart(part, part.recipe(Tools(tools))) for part in parts)
        identity = DatasetIdentity("d", "0" * 64)
        build_fixture(FixtureTask(folder, identity, HAYSTACK, ("q1",), planned, meta, tools, vectors=rows))
        return Fixture.open(folder)

    read = {part.name: part for name in MEMORIES.built_in for part in parts_of(resolve_configuration(name))}
    more = [part for part in read.values() if part not in PARTS and not part.derived]
    first = build(None, [*PARTS, *(part for part in more if not part.needs)], {VECTORS.name: vectors})
    made_of_others = [part for part in more if part.needs]
    texts = {part.name: part.texts(PartInput(HAYSTACK, first), PartOptions()) for part in made_of_others if part.embeds}
    # What is made of the messages is as near to the question as anything.
    rows = {name: np.array([direction(0.5)] * len(given), np.float32) for name, given in texts.items()}
    return build(first.meta, made_of_others, rows)


def embed_query(text: str) -> NDArray[np.float32]:
    assert text == QUESTION.text
    return np.array([1.0, 0.0], np.float32)


def gold(question_id: str) -> Gold:
    return Gold(question_id, "multi-session", "Boston", ("s1", "s3"), (), abstention=False)


def recall(fixture: Fixture, preset: str, *overrides: str) -> Recall:
    memory = build_memory(
        resolve_configuration(preset, overrides), MemoryTools(embed_query, gold, reranker=lambda spec: ByLength())
    )
    return complete(memory.recall(QUESTION, fixture))


def message_ids(recalled: Recall) -> list[str]:
    return [message_id for item in recalled.items for message_id in item.message_ids]


def ranks(recalled: Recall) -> dict[str, int]:
    return {item.message_ids[0]: item.rank for item in recalled.items if item.rank is not None}


@pytest.mark.slow
def test_none_recalls_nothing(fixture: Fixture) -> None:
    assert recall(fixture, "none") == Recall(())


def test_full_history_is_every_message_oldest_first(fixture: Fixture) -> None:
    recalled = recall(fixture, "full-history")
    assert message_ids(recalled) == IDS
    assert [item.text for item in recalled.items][:4] == ["Hello.", "Hi!", "I live in Boston.", "What is new?"]
    assert [item.speaker for item in recalled.items][:4] == ["user", "assistant", "user", "user"]
    assert recalled.notes == ()


@pytest.mark.parametrize(("count", "ids"), [(0, []), (1, IDS[-1:]), (4, IDS[-4:]), (12, IDS), (500, IDS)])
def test_last_k_counts_across_threads(fixture: Fixture, count: int, ids: list[str]) -> None:
    assert message_ids(recall(fixture, "last-k", f"last_messages={count}")) == ids


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        # s1:2 is the last of its thread and s2:2 not the first of its: no neighbour comes from another thread.
        (("top_k=1", "message_range=2"), ["s1:0", "s1:1", "s1:2"]),
        (("top_k=2", "message_range=1"), ["s1:1", "s1:2", "s2:1", "s2:2", "s2:3"]),
        (("top_k=2", "message_range=0"), ["s1:2", "s2:2"]),
        # The windows of s2:2 and s2:3 overlap.
        (("top_k=4", "message_range=1"), ["s1:1", "s1:2", "s2:1", "s2:2", "s2:3", "s3:0", "s3:1"]),
        (("top_k=1", "message_range=50"), ["s1:0", "s1:1", "s1:2"]),
        (("top_k=500", "message_range=0"), IDS),
    ],
)
def test_semantic_recall_widens_each_hit_inside_its_thread(
    fixture: Fixture, settings: Sequence[str], ids: list[str]
) -> None:
    assert message_ids(recall(fixture, "semantic-recall", "last_messages=0", *settings)) == ids


def test_ranks_and_scores_of_the_hits_survive(fixture: Fixture) -> None:
    recalled = recall(fixture, "semantic-recall", "last_messages=0", "top_k=4", "message_range=1")
    assert ranks(recalled) == {"s1:2": 1, "s2:2": 2, "s3:0": 3, "s2:3": 4}
    scores = {item.message_ids[0]: item.score for item in recalled.items if item.score is not None}
    assert scores == pytest.approx({"s1:2": 0.95, "s2:2": 0.9, "s3:0": 0.4, "s2:3": 0.3})


def test_last_messages_are_united_with_the_hits(fixture: Fixture) -> None:
    recalled = recall(fixture, "semantic-recall", "last_messages=3", "top_k=3", "message_range=0")
    assert message_ids(recalled) == ["s1:2", "s2:2", "s3:0", "s3:1", "s3:2"]
    assert ranks(recalled) == {"s1:2": 1, "s2:2": 2, "s3:0": 3}


def test_defaults_of_semantic_recall_cover_this_whole_history(fixture: Fixture) -> None:
    recalled = recall(fixture, "semantic-recall")
    assert message_ids(recalled) == IDS
    assert sorted(ranks(recalled).values()) == list(range(1, 11))


def test_scope_thread_searches_the_empty_question_thread_and_says_so(fixture: Fixture) -> None:
    recalled = recall(fixture, "semantic-recall", "scope=thread", "last_messages=2")
    assert message_ids(recalled) == ["s3:1", "s3:2"]
    assert ranks(recalled) == {}
    (note,) = recalled.notes
    assert "scope is the question's own thread" in note


def test_positions_become_items_once_and_in_time_order(fixture: Fixture) -> None:
    items = items_at(fixture.memory, [8, 1, 8], {8: Hit(1, 0.5)})
    assert [(item.message_ids[0], item.rank, item.score) for item in items] == [
        ("s1:1", None, None),
        ("s1#2:1", 1, 0.5),
    ]


def test_working_memory_comes_first_with_the_threads_it_was_made_from(fixture: Fixture) -> None:
    document, *messages = recall(fixture, "working-memory", "last_messages=2").items
    assert document.kind == "working-memory"
    assert "I live in Boston." in document.text
    assert (document.thread_ids, document.message_ids) == (("s1", "s2", "s1#2", "s3"), ())
    assert document.date == datetime(2023, 5, 3, 9, 30)
    assert [item.message_ids for item in messages] == [("s3:1",), ("s3:2",)]


def test_combined_is_document_hits_and_last_messages(fixture: Fixture) -> None:
    recalled = recall(fixture, "combined", "last_messages=1", "top_k=2")
    assert recalled.items[0].kind == "working-memory"
    assert message_ids(recalled) == ["s1:1", "s1:2", "s2:1", "s2:2", "s2:3", "s3:2"]
    assert ranks(recalled) == {"s1:2": 1, "s2:2": 2}


def test_rag_rerank_is_the_best_by_the_reranker(fixture: Fixture) -> None:
    nearest = recall(fixture, "rag", "top_k=4")
    shortest = sorted(nearest.items, key=lambda item: len(item.text))[0]
    (item,) = recall(fixture, "rag-rerank", "top_k=1", "rerank_depth=4").items
    assert (item.text, item.rank) == (shortest.text, 1)
    assert len(recall(fixture, "rag-rerank").items) == 10


def test_oracle_is_the_evidence_sessions(fixture: Fixture) -> None:
    assert message_ids(recall(fixture, "oracle")) == ["s1:0", "s1:1", "s1:2", "s3:0", "s3:1", "s3:2"]


@pytest.mark.parametrize("preset", MEMORIES.built_in)
def test_every_item_says_where_it_came_from(fixture: Fixture, preset: str) -> None:
    recalled = recall(fixture, preset)
    assert (len(recalled.items) == 0) == (preset == "none")
    for item in recalled.items:
        assert item.thread_ids
        if item.kind == "message":
            ((message_id,), (thread_id,)) = (item.message_ids, item.thread_ids)
            stored = fixture.memory.message(message_id)
            assert (stored.thread_id, stored.content, stored.created_at) == (thread_id, item.text, item.date)
    dates = [item.date for item in recalled.items if item.kind == "message" and item.date]
    assert dates == sorted(dates)


def prepared(folder: Path, one: dict[str, Any]) -> tuple[LongMemEvalDataset, Fixture]:
    """A data set of one record, prepared for all presets."""
    data = LongMemEvalDataset(write_dataset(folder / "small.json", one))
    folders = Folders(data_dir=folder, prepared_dir=folder / "prepared", results_dir=folder / "results")
    prepare(data, list(MEMORIES.built_in), options=PrepareOptions(embedder="hashing:64"), folders=folders)
    return data, Fixture.open(fixture_folder(folders.prepared_dir, data.name, "default", one["question_id"]))


def recall_prepared(data: LongMemEvalDataset, fixture: Fixture, preset: str, *overrides: str) -> Recall:
    tools = MemoryTools(lambda text: HashingEmbedder(64).embed([text])[0], data.gold, reranker=lambda spec: ByLength())
    (question,) = data.questions()
    return complete(build_memory(resolve_configuration(preset, overrides), tools).recall(question, fixture))


@pytest.mark.slow
def test_history_is_in_time_order_whatever_the_files(tmp_path: Path) -> None:
    dates = ["2023/05/22 (Mon) 09:15", "2023/05/20 (Sat) 02:21", "2023/05/20 (Sat) 02:21"]
    data, fixture = prepared(tmp_path, record(haystack_dates=dates))
    ids = ["answer_1:0", "answer_1:1", "filler_2:0", "filler_2:1", "filler_1:0", "filler_1:1"]
    assert message_ids(recall_prepared(data, fixture, "full-history")) == ids
    assert message_ids(recall_prepared(data, fixture, "last-k", "last_messages=3")) == ids[-3:]


def test_nearest_message_by_words_is_ranked_first(tmp_path: Path) -> None:
    data, fixture = prepared(tmp_path, record())
    recalled = recall_prepared(data, fixture, "semantic-recall", "last_messages=0", "top_k=1", "message_range=0")
    (item,) = recalled.items
    assert (item.message_ids, item.rank) == (("answer_1:0",), 1)


def test_blank_message_is_stored_and_shown_but_has_no_vector(tmp_path: Path) -> None:
    sessions = [[{"role": "user", "content": "Where is my bicycle?"}, {"role": "assistant", "content": " \n"}]]
    one = record(
        haystack_sessions=sessions,
        haystack_session_ids=["answer_1"],
        haystack_dates=["2023/05/20 (Sat) 02:21"],
    )
    data, fixture = prepared(tmp_path, one)
    assert len(fixture.part(VECTORS).rows()[0]) == 1
    everything = ["answer_1:0", "answer_1:1"]
    assert message_ids(recall_prepared(data, fixture, "full-history")) == everything
    hits = recall_prepared(data, fixture, "semantic-recall", "last_messages=0", "message_range=0")
    assert message_ids(hits) == everything[:1]
    assert message_ids(recall_prepared(data, fixture, "semantic-recall", "last_messages=0")) == everything


@pytest.mark.slow
@pytest.mark.parametrize(
    "haystack",
    [
        {"haystack_sessions": [], "haystack_session_ids": [], "haystack_dates": []},
        {
            "haystack_sessions": [[]],
            "haystack_session_ids": ["answer_1"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        },
    ],
    ids=["no session", "no turn"],
)
def test_haystack_without_messages_serves_every_preset_and_reader(tmp_path: Path, haystack: dict[str, Any]) -> None:
    data, fixture = prepared(tmp_path, record(**haystack))
    (question,) = data.questions()
    for preset in MEMORIES.built_in:
        recalled = recall_prepared(data, fixture, preset)
        assert message_ids(recalled) == []
        for layout in HISTORY_FORMATS:
            reader = Reader(reading_configuration(history_format=layout), ExtractiveModel(), CharacterCounter())
            answer = asyncio.run(reader.read(question, recalled)).answer
            assert (answer.status, answer.recall_ids) == ("ok", ())
