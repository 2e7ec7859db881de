"""What messages state: the rules, the part with the vectors, and what they do to the dense score and the ranking."""

import math
from pathlib import Path

import numpy as np
import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FixtureError
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools, RankingMemory
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.run.run import run
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.history import HistoryView, RankedUnit
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.statements import STATEMENT_VECTORS, stated
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from longmemeval.storage.vector_index import VectorItem
from tests.ranking.support import history
from tests.support import record, write_dataset

EMBEDDER = load_embedder("hashing")
TURNS = [
    ("user", "Hi there! I painted my bicycle green. Any tips for drying?"),
    ("assistant", "Sounds great! How long is a piece of string?"),
    ("user", "The chain of my bicycle broke on the bridge over the river, and a stranger lent me a spare one."),
    ("assistant", "A spare chain fits most frames."),
]


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("Hey Ada! I moved to Porto. How about you?", "I moved to Porto."),
        ("Thanks, Ada! That\u2019s so kind of you.", ""),
        ("Wow, Ada's bread sounds amazing!", "Wow, Ada's bread sounds amazing!"),
        ("Yes!\nWe met in 1999? It rained.", "It rained."),
        ("How do I bake bread", "How do I bake bread"),
        ("No problem. Take care \U0001f642!", ""),
        ("", ""),
    ],
)
def test_questions_and_pleasantries_go(text: str, states: str) -> None:
    assert stated(text, {"ada"}) == states


def test_a_stranger_s_name_tells_something() -> None:
    assert stated("Thanks, Ada!") == "Thanks, Ada!"


def test_a_statement_stands_for_a_turn_and_not_for_its_neighbours() -> None:
    """Turns x and y, of which the first states z: its own vector is z + y/2, the neighbour's still y + x/2."""
    view = HistoryView(history([("user", "a"), ("assistant", "b")]))
    x, y, z = np.eye(3, dtype=np.float32)
    items = [VectorItem(unit.unit_id, unit.thread_id, 0) for unit in view.units]
    index = DenseIndex(view, items, np.array([x, y]), (0.5,), stated=(items, np.array([z, y])))
    length = math.sqrt(1.25)
    assert index.scores(x) == pytest.approx([0.0, 0.5 / length])
    assert index.scores(z) == pytest.approx([1 / length, 0.0])


def test_a_turn_that_states_nothing_is_near_to_what_its_neighbours_are() -> None:
    view = HistoryView(history([("user", "a"), ("assistant", "b")]))
    x, y = np.eye(2, dtype=np.float32)
    items = [VectorItem(unit.unit_id, unit.thread_id, 0) for unit in view.units]
    index = DenseIndex(view, items, np.array([x, y]), (0.5,), stated=(items[1:], np.array([y])))
    assert index.scores(y) == pytest.approx([1.0, 1 / math.sqrt(1.25)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """One history, prepared without and with the vectors of statements."""
    folder = tmp_path_factory.mktemp("statements")
    turns = [{"role": role, "content": text} for role, text in TURNS]
    data = record(
        haystack_session_ids=["s"],
        haystack_sessions=[turns],
        haystack_dates=["2023/05/20 (Sat) 02:21"],
        answer_session_ids=["s"],
    )
    folders = Folders(prepared_dir=folder / "prepared", results_dir=folder / "results")
    dataset = load_dataset(write_dataset(folder / "small.json", data))
    prepare(dataset, ["hybrid"], folders=folders)
    with pytest.raises(FixtureError, match=r"lacks part 'vector-statements'.*prepare .*--set statements=True"):
        run(dataset, resolve_configuration("hybrid", ["statements=true"]), "offline/extractive", folders=folders)
    prepare(dataset, [resolve_configuration("hybrid", ["statements=true"])], folders=folders)
    return folders


def opened(folders: Folders) -> Fixture:
    return Fixture.open(fixture_folder(folders.prepared_dir, "small", "default", "q1"))


def ranked(folders: Folders, *overrides: str, method: str = "hybrid") -> list[RankedUnit]:
    dataset, fixture = load_dataset(folders.prepared_dir.parent / "small.json"), opened(folders)
    tools = MemoryTools(embed_query=lambda text: EMBEDDER.embed([text])[0])
    memory = build_memory(resolve_configuration(method, overrides), tools)
    assert isinstance(memory, RankingMemory)
    return memory.rank(next(iter(dataset.questions())), fixture)


def test_the_part_holds_a_vector_for_each_message_that_states_something(folders: Folders) -> None:
    items, vectors = opened(folders).part(STATEMENT_VECTORS).rows()
    assert [item.id for item in items] == ["s:0", "s:2", "s:3"]
    wanted = EMBEDDER.embed(["I painted my bicycle green.", TURNS[2][1], TURNS[3][1]])
    assert np.array_equal(vectors, wanted)
    assert np.array_equal(vectors[1:], opened(folders).part(VECTORS).rows()[1][2:])


def test_made_again_it_has_the_same_bytes(folders: Folders, tmp_path: Path) -> None:
    again = Folders(prepared_dir=tmp_path)
    dataset = load_dataset(folders.prepared_dir.parent / "small.json")
    prepare(dataset, [resolve_configuration("hybrid", ["statements=true"])], folders=again)
    file = Path("small") / "default" / "q1" / "vector-statements.json"
    assert (again.prepared_dir / file).read_bytes() == (folders.prepared_dir / file).read_bytes()


def test_statements_change_the_dense_score_alone(folders: Folders) -> None:
    assert ranked(folders, "statements=true") != ranked(folders)
    assert ranked(folders, "statements=true", method="bm25") == ranked(folders, method="bm25")


@pytest.mark.parametrize("method", ["bm25", "hybrid"])
def test_the_length_prior_divides_every_score_by_a_power_of_the_words(folders: Folders, method: str) -> None:
    words = {"s:0": 11, "s:1": 9, "s:2": 20, "s:3": 6}
    plain = {unit.unit_id: unit.score for unit in ranked(folders, method=method)}
    found = ranked(folders, "length_exponent=0.5", method=method)
    assert {unit.unit_id: unit.score for unit in found} == pytest.approx(
        {unit_id: score / math.sqrt(words[unit_id]) for unit_id, score in plain.items()}
    )
    assert [unit.score for unit in found] == sorted((unit.score for unit in found), reverse=True)


def test_an_exponent_of_zero_leaves_every_bit_as_it_is(folders: Folders) -> None:
    assert ranked(folders, "length_exponent=0") == ranked(folders)
