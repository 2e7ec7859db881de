"""`bm25`, `hybrid` and what they lend to semantic recall: rankings, windows, budgets."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.event_loop import complete
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemorySystem, MemoryTools, RankingMemory
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.ranking.fusion import session_votes
from longmemeval.ranking.questions import QuestionAnalysis
from longmemeval.reading.prompts import message_chunks, render_history
from longmemeval.records import Question, Recall
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from tests.support import record, write_dataset

EMBEDDER = load_embedder("hashing")
SESSIONS = {
    "bikes": [
        ("user", "I painted my bicycle green in the garage. Any tips for drying?"),
        ("assistant", "Let the paint dry for a day."),
        ("user", "Thanks! And how do I oil a chain?"),
    ],
    "rivers": [
        ("user", "Name three rivers in France."),
        ("assistant", "The Seine, the Loire and the Rhone."),
    ],
    "cooking": [
        ("user", "What goes with grilled aubergine?"),
        ("assistant", "Tahini, lemon and mint go well with aubergine."),
        ("user", "I cooked it for my sister Ada in March."),
    ],
}


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    folder = tmp_path_factory.mktemp("search")
    turns = [[{"role": role, "content": text} for role, text in session] for session in SESSIONS.values()]
    data = record(haystack_session_ids=list(SESSIONS), haystack_sessions=turns, answer_session_ids=["bikes"])
    dataset = load_dataset(write_dataset(folder / "small.json", data))
    folders = Folders(prepared_dir=folder / "prepared")
    prepare(dataset, ["hybrid", "semantic-recall"], folders=folders)
    return Fixture.open(fixture_folder(folders.prepared_dir, "small", "default", "q1"))


def system(preset: str, *overrides: str) -> MemorySystem:
    tools = MemoryTools(embed_query=lambda text: EMBEDDER.embed([text])[0], count_tokens=lambda text: len(text.split()))
    return build_memory(resolve_configuration(preset, overrides), tools)


def recalled(asked: Question, fixture: Fixture, *overrides: str) -> Recall:
    return complete(system("bm25", *overrides).recall(asked, fixture))


def question(text: str, fixture: Fixture) -> Question:
    newest = fixture.memory.messages[-1].created_at
    return Question("q1", text, newest, "", "q1")


def ranked(preset: str, text: str, fixture: Fixture, *overrides: str) -> list[str]:
    memory = system(preset, *overrides)
    assert isinstance(memory, RankingMemory)
    return [unit.unit_id for unit in memory.rank(question(text, fixture), fixture)]


@pytest.mark.parametrize("preset", ["bm25", "hybrid"])
def test_stems_and_content_words_find_the_turn(preset: str, fixture: Fixture) -> None:
    assert ranked(preset, "What colour did I paint my bicycles?", fixture)[0] == "bikes:0"


def test_every_unit_is_ranked_once(fixture: Fixture) -> None:
    everything = {message.message_id for message in fixture.memory.messages}
    for preset in ("bm25", "hybrid", "semantic-recall", "combined"):
        ranking = ranked(preset, "aubergine", fixture)
        assert sorted(ranking) == sorted(everything)


def test_words_of_neighbours_lift_a_turn_that_lacks_them(fixture: Fixture) -> None:
    """The answer says neither "aubergine" nor "dish"; its neighbours do."""
    query = "For whom was the grilled aubergine?"
    with_window = ranked("bm25", query, fixture, "statement_weight=0", "session_weight=0", "speaker_weight=0")
    without = ranked("bm25", query, fixture, "statement_weight=0", "session_weight=0", "speaker_weight=0", "window=[]")
    assert with_window.index("cooking:2") < 3
    assert with_window.index("cooking:2") <= without.index("cooking:2")


def test_sessions_by_votes(fixture: Fixture) -> None:
    """Their turns' ranks vote; sessions without a vote follow by their best turn; sessions are shown whole."""
    query = "What goes with aubergine, and which rivers are in France?"
    turns = ranked("bm25", query, fixture)
    votes = dict.fromkeys(SESSIONS, 0.0)
    for rank, turn in enumerate(turns[:3], start=1):
        votes[turn.partition(":")[0]] += 1 / math.log2(rank + 1)
    firsts = list(dict.fromkeys(turn.partition(":")[0] for turn in turns))
    memory = system("bm25", "granularity=votes", "rerank_depth=3", "last_messages=0", "message_range=0", "top_k=1")
    assert isinstance(memory, RankingMemory)
    units = memory.rank(question(query, fixture), fixture)
    assert [unit.unit_id for unit in units] == sorted(firsts, key=lambda name: -votes[name])
    assert [unit.score for unit in units] == pytest.approx(sorted(votes.values(), reverse=True))
    assert [len(unit.message_ids) for unit in units] == [len(SESSIONS[unit.unit_id]) for unit in units]
    recall = complete(memory.recall(question(query, fixture), fixture))
    assert [item.message_ids[0] for item in recall.items] == list(units[0].message_ids)


def test_rag_rerank_is_the_nearest_messages_read_again(fixture: Fixture) -> None:
    """The best four by cosine similarity, in the order of a reranker that likes the last of the alphabet."""

    class Alphabet:
        spec = fingerprint = "test/alphabet"

        def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
            return np.array([sorted(texts).index(text) for text in texts], np.float64)

    query = question("Which rivers are in France?", fixture)
    tools = MemoryTools(lambda text: EMBEDDER.embed([text])[0], reranker=lambda spec: Alphabet())
    memory = build_memory(resolve_configuration("rag-rerank", ["rerank_depth=4"]), tools)
    assert isinstance(memory, RankingMemory)
    nearest = ranked("rag", query.text, fixture)
    units = [unit.message_ids[0] for unit in memory.rank(query, fixture)]
    text = {message.message_id: message.content for message in fixture.memory.messages}
    assert units == [*sorted(nearest[:4], key=text.__getitem__, reverse=True), *nearest[4:]]


def test_two_good_turns_outvote_the_best_one() -> None:
    places, threads = np.array([0, 2, 3, 1]), np.array([0, 0, 1, 1])
    assert session_votes(places, threads, 3) == [(1, pytest.approx(1 / math.log2(3) + 1 / 2)), (0, 1.0)]
    assert session_votes(places, threads, 1) == [(0, 1.0), (1, 0.0)]


def test_rag_is_the_nearest_messages_alone(fixture: Fixture) -> None:
    query = question("Which rivers are in France?", fixture)
    vectors = EMBEDDER.embed([message.content for message in fixture.memory.messages])
    cosine = vectors @ EMBEDDER.embed([query.text])[0]
    best = {fixture.memory.messages[place].message_id for place in np.argsort(-cosine)[:2]}
    recall = complete(system("rag", "top_k=2").recall(query, fixture))
    assert {item.message_ids[0] for item in recall.items} == best
    assert len(complete(system("simple-fast").recall(query, fixture)).items) == len(fixture.memory.messages)


def test_granularities_and_sides(fixture: Fixture) -> None:
    assert ranked("bm25", "aubergine", fixture, "granularity=session")[0] == "cooking"
    assert len(ranked("bm25", "aubergine", fixture, "granularity=session")) == 3
    assert set(ranked("bm25", "aubergine", fixture, "granularity=round")) == {
        "bikes:0", "bikes:2", "rivers:0", "cooking:0", "cooking:2"
    }  # fmt: skip
    user = ranked("bm25", "aubergine", fixture, "side=user")
    assert set(user) == {"bikes:0", "bikes:2", "rivers:0", "cooking:0", "cooking:2"}


def test_the_speaker_asked_about_goes_before_the_other(fixture: Fixture) -> None:
    quiet = ("statement_weight=0", "session_weight=0", "window=[]", "speaker_weight=1")
    mine = ranked("bm25", "my aubergine", fixture, *quiet)
    yours = ranked("bm25", "your aubergine", fixture, *quiet)
    assert mine.index("cooking:0") < mine.index("cooking:1")
    assert yours.index("cooking:1") < yours.index("cooking:0")


def test_no_word_in_common_keeps_the_order_of_the_history_among_equals(fixture: Fixture) -> None:
    quiet = ("statement_weight=0", "session_weight=0", "speaker_weight=0", "date_weight=0")
    history = [message.message_id for message in fixture.memory.messages]
    assert ranked("bm25", "zzz qqq", fixture, *quiet) == history


def test_recall_is_the_best_units_with_neighbours_in_time_order(fixture: Fixture) -> None:
    recall = recalled(question("paint my bicycle", fixture), fixture, "top_k=1", "message_range=1", "last_messages=0")
    assert [item.message_ids[0] for item in recall.items] == ["bikes:0", "bikes:1"]
    assert [item.rank for item in recall.items] == [1, None]


def test_budget_is_filled_in_rank_order_and_what_is_left_out_is_noted(fixture: Fixture) -> None:
    asked = question("paint my bicycle green", fixture)
    whole = recalled(asked, fixture, "top_k=3", "message_range=0", "last_messages=2")
    small = recalled(asked, fixture, "top_k=3", "message_range=0", "last_messages=2", "budget=20")
    assert whole.notes == ()
    assert [item.message_ids[0] for item in small.items] == ["bikes:0"]
    (note,) = small.notes
    assert note == f"budget: {len(whole.items) - 1} messages left out, 20 tokens allowed"
    rendered = render_history(small, message_chunks(small), "nl")
    assert len(rendered.split()) <= 20 < len(rendered.split()) + len(whole.items[1].text.split())
    enough = recalled(asked, fixture, "top_k=3", "message_range=0", "last_messages=2", "budget=1000")
    assert enough == whole


def test_a_ranking_within_a_budget_is_its_beginning(fixture: Fixture) -> None:
    whole = ranked("bm25", "paint my bicycle green", fixture, "message_range=0")
    kept = [
        ranked("bm25", "paint my bicycle green", fixture, "message_range=0", f"budget={budget}")
        for budget in range(1, 120)
    ]
    assert all(some == whole[: len(some)] for some in kept)
    assert sorted(map(len, kept)) == [len(some) for some in kept]
    assert {1, 2, len(whole)} <= set(map(len, kept))
    alone = next(budget for budget, some in enumerate(kept, start=1) if some)
    assert ranked("bm25", "paint my bicycle green", fixture, "message_range=1", f"budget={alone}") == []
    assert ranked("bm25", "paint my bicycle green", fixture, "budget=1000") == whole


def test_a_chat_model_that_is_wanted_and_not_there_is_told(fixture: Fixture) -> None:
    with pytest.raises(HarnessError, match=r"but none is named: decompose=model, time_range_by=model.*--query-model"):
        ranked("bm25", "aubergine", fixture, "decompose=model", "time_range=boost", "time_range_by=model")


def test_what_a_chat_model_made_of_the_question_is_searched_for(fixture: Fixture) -> None:
    asked = question("What of it?", fixture)
    analysis = QuestionAnalysis((asked.text, "rivers France", "sister Ada"), notes=("by hand",))
    tools = MemoryTools(lambda text: EMBEDDER.embed([text])[0], analyse=lambda question: analysis)
    quiet = ("statement_weight=0", "session_weight=0", "window=[]", "speaker_weight=0", "message_range=0")
    memory = build_memory(
        resolve_configuration("bm25", ["decompose=model", "top_k=2", "last_messages=0", *quiet]), tools
    )
    recall = complete(memory.recall(asked, fixture))
    assert [item.message_ids[0] for item in recall.items] == ["rivers:0", "cooking:2"]
    assert recall.notes == ("by hand",)


def test_semantic_recall_can_rank_by_the_hybrid(fixture: Fixture) -> None:
    asked = "What colour did I paint my bicycles?"
    assert ranked("semantic-recall", asked, fixture, "retriever=hybrid") == ranked("hybrid", asked, fixture)


def test_an_empty_question_ranks_everything_all_the_same(fixture: Fixture) -> None:
    assert len(ranked("hybrid", "???", fixture)) == len(fixture.memory.messages)


def test_parts_of_a_question_are_searched_too_if_wanted(fixture: Fixture) -> None:
    """Each part lifts its own best turn by half of the scale; the whole question has that turn's words only in part."""
    asked = question("Which came first, painting the bicycle or grilling the aubergine?", fixture)
    analysis = QuestionAnalysis((asked.text, "painting bicycle", "grilling aubergine"))
    tools = MemoryTools(lambda text: EMBEDDER.embed([text])[0], analyse=lambda question: analysis)
    scores = []
    for override in ("decompose=off", "decompose=model"):
        memory = build_memory(resolve_configuration("bm25", [override]), tools)
        assert isinstance(memory, RankingMemory)
        scores.append({unit.unit_id: unit.score for unit in memory.rank(asked, fixture)})
    whole, parts = scores
    assert whole.keys() == parts.keys()
    assert parts["cooking:0"] > parts["rivers:0"] + 0.5
    assert whole != parts


def test_an_unknown_reranker_is_told_with_the_nearest(fixture: Fixture) -> None:
    with pytest.raises(HarnessError, match="fastembed"):
        ranked("bm25", "aubergine", fixture, "reranker=fastmbed:x")
