"""A memory's colour and mark: its own wherever and with whatever it is shown, and never two alike on one page."""

from itertools import permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from longmemeval.memory.configuration import MEMORIES
from longmemeval.report.charts.svg import COLOURS, SHAPES, Look, looks_of, shown_runs
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import graded_run
from tests.pipeline.helpers import colours, compare, folders_in

MEMORY, CONTROL, CEILING = (False, False), (True, False), (True, True)
PRESETS = tuple(MEMORIES.built_in)


def by_name(*names: str) -> dict[str, Look]:
    return dict(zip(names, looks_of(names, [MEMORY] * len(names)), strict=True))


def test_a_preset_looks_the_same_whatever_it_is_compared_with_and_in_whichever_order() -> None:
    every = by_name(*PRESETS)
    for name in PRESETS:
        assert by_name(name)[name] == every[name]
    several = ("bm25", "hybrid", "last-k", "typed-nodes")
    for order in permutations(several):
        assert by_name(*order) == {name: every[name] for name in several}


def test_another_memory_looks_the_same_beside_presets_of_other_looks() -> None:
    alone = by_name("my-own-memory")
    free = [name for name in PRESETS if by_name(name)[name] != alone["my-own-memory"]]
    assert len(free) >= len(PRESETS) - 1
    for name in free:
        assert by_name(name, "my-own-memory")["my-own-memory"] == alone["my-own-memory"]
        assert by_name("my-own-memory", name)["my-own-memory"] == alone["my-own-memory"]


def test_settings_in_a_name_keep_the_memorys_colour_and_choose_the_mark_alone() -> None:
    plain = by_name("hybrid")["hybrid"]
    names = ("hybrid top_k=5", "hybrid top_k=10", "bm25 top_k=5", "mine top_k=5")
    alone = {name: by_name(name)[name] for name in names}
    assert alone["hybrid top_k=5"].colour == alone["hybrid top_k=10"].colour == plain.colour
    assert alone["bm25 top_k=5"].colour == by_name("bm25")["bm25"].colour
    assert alone["mine top_k=5"].colour == by_name("mine")["mine"].colour
    assert len({look.shape for name, look in alone.items() if "hybrid" in name} | {plain.shape}) == 3
    for order in permutations((*names, "hybrid")):
        assert by_name(*order) == alone | {"hybrid": plain}


def test_presets_differ_and_those_that_are_no_controls_use_every_colour() -> None:
    looks = by_name(*PRESETS)
    assert len({(look.colour, look.shape) for look in looks.values()}) == len(PRESETS)
    memories = [name for name in PRESETS if MEMORIES.get(name).control is None]
    assert len({looks[name].colour for name in memories}) == min(len(memories), COLOURS)


NAMES = st.lists(
    st.one_of(st.sampled_from(PRESETS), st.text("abc-=0", min_size=1, max_size=6), st.just("bm25 top_k=5")),
    unique=True,
    min_size=1,
    max_size=24,
)


@given(names=NAMES, data=st.data())
def test_no_two_are_alike_on_one_page_and_order_means_nothing(names: list[str], data: st.DataObject) -> None:
    kinds = {name: data.draw(st.sampled_from((MEMORY, CONTROL, CEILING))) for name in names}
    # As many as there are marks: all controls are grey.
    assume(max(list(kinds.values()).count(kind) for kind in (CONTROL, CEILING)) <= len(SHAPES))
    looks = dict(zip(names, looks_of(names, [kinds[name] for name in names]), strict=True))
    seen = [(look.colour, look.shape, look.hatched) for look in looks.values()]
    assert len(set(seen)) == len(seen)
    assert all((look.colour == 0) == kinds[name][0] for name, look in looks.items())
    assert all(look.hatched == kinds[name][1] for name, look in looks.items())
    order = data.draw(st.permutations(names))
    assert dict(zip(order, looks_of(order, [kinds[name] for name in order]), strict=True)) == looks


@pytest.mark.parametrize("number", [1, 12, 13, 60, 144])
def test_as_many_as_there_are_looks_differ(number: int) -> None:
    names = [f"memory-{place}" for place in range(number)]
    looks = looks_of(names, [MEMORY] * number)
    assert len({(look.colour, look.shape) for look in looks}) == number


def test_as_many_controls_as_there_are_marks_differ_in_their_marks() -> None:
    """They are all grey."""
    looks = looks_of([f"refuse on memory-{place}" for place in range(len(SHAPES))], [CONTROL] * len(SHAPES))
    assert {look.colour for look in looks} == {0}
    assert len({look.shape for look in looks}) == len(SHAPES)


def looks_in(folders: Folders, *runs: str) -> dict[str, Look]:
    """The look of each run, by its id, on the page of these runs."""
    found = compare(runs, folders=folders)
    return {run.run_id: shown.look for run, shown in zip(found.runs, shown_runs(found), strict=True)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """`bm25` as it is and with another parameter, `last-k` by two reading methods, `hybrid`, and the oracle."""
    path = tmp_path_factory.mktemp("looks")
    dataset, folders = colours(path / "colours.json", 8), folders_in(path)
    for run_id, name, parameters, others in (
        ("bm25", "bm25", {"top_k": 5}, {}),
        ("bm25-wide", "bm25", {"top_k": 10}, {}),
        ("last-k", "last-k", {}, {}),
        ("last-k-con", "last-k", {}, {"reading": {"method": "con", "history_format": "nl"}}),
        ("hybrid", "hybrid", {}, {}),
        ("oracle", "oracle", {}, {"reads_gold": True}),
    ):
        memory = {"name": name, "preset": name, "parameters": parameters}
        graded_run(dataset, folders, run_id, [True] * 8, settings={"memory": memory, **others})
    return folders


def test_the_order_of_a_comparison_changes_no_look(folders: Folders) -> None:
    runs = ("bm25", "last-k", "hybrid", "oracle")
    expected = looks_in(folders, *runs)
    assert len(set(expected.values())) == 4
    for order in permutations(runs):
        assert looks_in(folders, *order) == expected


@pytest.mark.parametrize(
    ("run", "beside"),
    [("bm25", "hybrid"), ("bm25", "oracle"), ("bm25", "bm25-wide"), ("last-k", "last-k-con"), ("oracle", "last-k")],
)
def test_what_a_memory_is_compared_with_changes_not_its_look(folders: Folders, run: str, beside: str) -> None:
    """Its name does change, with the parameters and settings that tell it from the others."""
    together = looks_in(folders, run, beside)
    assert together[run] == looks_in(folders, run)[run]
    assert together[run] != together[beside]
