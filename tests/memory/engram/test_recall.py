"""The presets of the engine in the pipeline: what they recall, within which budget, and as of when."""

import asyncio
from datetime import datetime, timedelta

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.arrays import Vector
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.llm.tokens import encoding_counter
from longmemeval.memory.configuration import build_memory, parts_of, resolve_configuration
from longmemeval.memory.protocol import KnowsTokens, MemorySystem, MemoryTools
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.reading.prompts import message_chunks, render_history
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture, fixture_folder
from tests.memory.engram.databases import Begin
from tests.pipeline.helpers import folders_in
from tests.support import record, write_dataset

START = datetime(2024, 3, 4, 9, 0)


def count(text: str) -> int:
    return encoding_counter("o200k_base").count(text)


def day(number: int) -> datetime:
    return START + timedelta(number)


LATER = day(40)
SAID: dict[int, tuple[str, ...]] = {
    0: ("I live in Ghent. I have three road bikes.", "Do you cook as well?", "I love baking sourdough bread."),
    5: ("I'm planning to visit my sister in June.", "Lovely. What's your sister called?", "Mia."),
    10: ("I moved to Lille yesterday.", "Good luck with the boxes, and mind your back!"),
    20: ("I have four road bikes.", "You will need a bigger shed for all of those."),
    30: ("The weather is awful again.", "It is the season for soup, so make a big pot."),
}


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    folder = tmp_path_factory.mktemp("engram")
    written = record(
        "h",
        haystack_dates=[f"{day(number):%Y/%m/%d (%a) %H:%M}" for number in SAID],
        haystack_session_ids=[f"s{number}" for number in SAID],
        answer_session_ids=["s0"],
        haystack_sessions=[
            [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]
            for texts in SAID.values()
        ],
    )
    dataset, folders = LongMemEvalDataset(write_dataset(folder / "d.json", written)), folders_in(folder)
    prepare(dataset, ["engram-lean", "engram-full"], options=PrepareOptions(jobs=1), folders=folders)
    return Fixture.open(fixture_folder(folders.prepared_dir, dataset.name, "default", "h"))


def embedded(text: str) -> Vector:
    vector: Vector = HashingEmbedder().embed([text])[0]
    return vector


def recalled(
    fixture: Fixture,
    text: str,
    asked: datetime = LATER,
    memory: str = "engram-lean",
    **settings: object,
) -> Recall:
    configuration = resolve_configuration(memory, [f"{key}={value}" for key, value in settings.items()])
    system: MemorySystem = build_memory(configuration, MemoryTools(embed_query=embedded, count_tokens=count))
    return asyncio.run(system.recall(Question("q", text, asked, "", "h"), fixture))


def facts(recall: Recall) -> list[str]:
    return [item.text for item in recall.items if item.kind == "fact"]


def test_the_newest_value_is_marked_and_the_one_before_too(fixture: Fixture) -> None:
    found = facts(recalled(fixture, "Where do I live now?"))
    assert "user lives in Lille (2024-03-13) [current]" in found
    assert "user lives in Ghent [until 2024-03-13]" in found


def test_facts_say_when_and_from_which_messages(fixture: Fixture) -> None:
    recall = recalled(fixture, "How many road bikes do I have now?")
    fact = next(item for item in recall.items if item.text.startswith("user has 4 road bikes"))
    assert (fact.message_ids, fact.thread_ids, fact.date) == (("s20:0",), ("s20",), day(20))


def test_nothing_of_later_days_is_recalled(fixture: Fixture) -> None:
    early = recalled(fixture, "Where do I live now?", asked=day(7))
    assert "user lives in Ghent" in facts(early)
    assert all("Lille" not in item.text for item in early.items)
    assert all(item.date is not None and item.date <= day(7) for item in early.items)
    whole = recalled(fixture, "Where do I live now?", asked=day(7), as_of="false")
    assert any("Lille" in item.text for item in whole.items)


@pytest.mark.parametrize("budget", [40, 80, 120, 200, 400])
@pytest.mark.parametrize("settings", [{}, {"summaries": 3}, {"fusion": "published"}, {"sessions": 1}])
def test_what_is_rendered_fits_the_budget(fixture: Fixture, budget: int, settings: dict[str, str | int]) -> None:
    for text in ("Where do I live now?", "What bread do I bake?", "Who is Mia?"):
        recall = recalled(fixture, text, LATER, "engram-lean", budget=budget, **settings)
        assert count(render_history(recall, message_chunks(recall), "nl")) <= budget or not recall.items


def test_what_has_no_room_is_told(fixture: Fixture) -> None:
    recall = recalled(fixture, "What bread do I bake?", budget=60)
    assert recall.left_out_ids
    assert any(note.startswith("budget: ") for note in recall.notes)
    shown = {one for item in recall.items for one in item.message_ids}
    messages = {item.message_ids[0] for item in recall.items if item.kind == "message"}
    assert messages.isdisjoint(recall.left_out_ids)
    assert shown | set(recall.left_out_ids) >= {message.message_id for message in fixture.memory.messages}


def test_a_fact_stands_in_for_a_message_without_room(fixture: Fixture) -> None:
    recall = recalled(fixture, "Tell me of bread", budget=150)
    messages = {one for item in recall.items if item.kind == "message" for one in item.message_ids}
    assert all(not set(item.message_ids) <= messages for item in recall.items if item.kind == "fact")


def test_the_gate_recalls_nothing_where_nothing_is_near(fixture: Fixture) -> None:
    recall = recalled(fixture, "Where do I live now?", abstain_below=99.0)
    assert recall.items == ()
    assert "nothing scores 99" in recall.notes[0]


def test_the_published_profile_has_its_numbers(fixture: Fixture) -> None:
    recall = recalled(fixture, "What bread do I bake?", budget=100000, fusion="published")
    kinds = [item.kind for item in recall.items]
    assert kinds.count("fact") <= 8
    assert kinds.count("summary") == 4
    assert (
        recalled(fixture, "What bread do I bake?", budget=100000, fusion="published", summaries=1).items != recall.items
    )


def test_full_shows_the_facts_above_the_whole_history(fixture: Fixture) -> None:
    recall = recalled(fixture, "Where do I live now?", memory="engram-full")
    messages = [item.message_ids[0] for item in recall.items if item.kind == "message"]
    assert messages == [message.message_id for message in fixture.memory.messages]
    assert [item.kind for item in recall.items[:4]] == ["fact"] * 4


def test_full_knows_the_tokens_of_what_it_shows(fixture: Fixture) -> None:
    recall, counter = recalled(fixture, "Where do I live now?", memory="engram-full"), encoding_counter("o200k_base")
    system = build_memory(resolve_configuration("engram-full"), MemoryTools(embed_query=embedded))
    assert isinstance(system, KnowsTokens)
    known = system.known_tokens(counter, fixture, recall)
    assert known is not None
    assert [one.tokens for one in known] == [count(item.text) for item in recall.items]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("databases")
@pytest.mark.parametrize(
    ("store", "vectors"), [("falkordb", "lancedb"), ("ladybug", "qdrant"), ("postgres", "postgres")]
)
def test_every_store_recalls_the_same(fixture: Fixture, begin: Begin, store: str, vectors: str) -> None:
    begin(store)
    begin(vectors)
    for text in ("Where do I live now?", "How many road bikes do I have?", "Who is Mia?"):
        for asked in (LATER, day(12)):
            for fusion in ("scores", "published"):
                usual = recalled(fixture, text, asked, budget=100, fusion=fusion)
                there = recalled(fixture, text, asked, budget=100, fusion=fusion, store=store, vectors=vectors)
                assert [item.text for item in there.items] == [item.text for item in usual.items]
                scores = [item.score or 0.0 for item in usual.items]
                assert [item.score or 0.0 for item in there.items] == pytest.approx(scores, abs=1e-5)


def test_the_presets_declare_what_they_read() -> None:
    for name in ("engram-lean", "engram-full"):
        parts = {part.name for part in parts_of(resolve_configuration(name))}
        assert {"db", "vector", "engram", "engram-vectors"} <= parts
