"""Rows are named by their memory and what differs, and rows that vary in two settings are a grid: known answers."""

from typing import Any

import pytest

from longmemeval.pipeline.compare.naming import Grid, Setup, grids_of, row_names


def setup(memory: str, model: str = "openai/gpt-4o", reading: str = "direct", embedder: str = "", **own: Any) -> Setup:
    """A row; `settings` among its parameters are those of the run."""
    settings = own.pop("settings", {})
    run_id = "-".join([memory.replace(" ", "-"), model.replace("/", "-"), reading, embedder, *map(str, own.values())])
    return Setup(run_id, memory, own, model, reading, embedder, settings)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([setup("hybrid", top_k=5)], ["hybrid"]),
        ([setup("hybrid", top_k=5), setup("bm25", top_k=9)], ["hybrid", "bm25"]),
        ([setup("hybrid", top_k=5), setup("hybrid", top_k=10)], ["hybrid top_k=5", "hybrid top_k=10"]),
        # What a grid's name holds is in the name where it differs; what follows from it is not.
        (
            [setup(f"bm25 budget={most}", budget=most, top_k=most // 10) for most in (500, 4000)],
            ["bm25 budget=500", "bm25 budget=4000"],
        ),
        ([setup("bm25 budget=500", budget=500), setup("hybrid budget=500", budget=500)], ["bm25", "hybrid"]),
        (
            [setup("hybrid top_k=5 reach=0", top_k=5, reach=0), setup("hybrid top_k=10 reach=0", top_k=10, reach=0)],
            ["hybrid top_k=5", "hybrid top_k=10"],
        ),
        (
            [
                setup("hybrid", reading="con"),
                setup("hybrid"),
                setup("hybrid", "x/llama"),
                setup("hybrid", "x/llama", "con"),
            ],
            ["hybrid, gpt-4o, con", "hybrid, gpt-4o, direct", "hybrid, llama, direct", "hybrid, llama, con"],
        ),
        # A memory without vectors has no embedder, a control no model of its own.
        (
            [
                setup("bm25"),
                setup("hybrid", embedder="a"),
                setup("hybrid", embedder="b"),
                setup("bm25", "offline/parrot"),
            ],
            ["bm25", "hybrid, a", "hybrid, b", "parrot on bm25"],
        ),
        (
            [setup("m", on=True), setup("m", on=None), setup("m", on=[1, 2])],
            ["m on=true", "m on=none", "m on=1,2"],
        ),
        # Where nothing else tells rows apart, the fewest settings do.
        (
            [
                setup("m", settings={"model": {"spec": "a", "max_tokens": most}, "reading": {"template": letter * 64}})
                for most, letter in ((500, "a"), (9, "b"))
            ],
            ["m, max_tokens=500", "m, max_tokens=9"],
        ),
        # No name is longer than can be read.
        (
            [setup("m" * 40, embedder="fastembed:" + letter * 60) for letter in "ab"],
            [f"{'m' * 11}…{'m' * 12}, fastembed:{letter}…{letter * 12}" for letter in "ab"],
        ),
    ],
)
def test_names(rows: list[Setup], names: list[str]) -> None:
    assert row_names(rows) == names
    assert all(len(name) < 70 for name in row_names(rows))


def grids(rows: list[Setup], controls: int = 0) -> list[Grid]:
    return grids_of(rows, [place >= len(rows) - controls for place in range(len(rows))])


def test_two_parameters_are_a_grid_for_each_combination_of_the_others() -> None:
    rows = [
        setup(f"hybrid top_k={top_k} reach={reach}", reading=reading, top_k=top_k, reach=reach)
        for top_k in (10, 5, 100)
        for reach in (0, 2)
        for reading in ("direct", "con")
    ]
    found = grids([*rows, setup("full-history")], controls=1)
    assert [(grid.title, grid.down_values, grid.across_values) for grid in found] == [
        ("top_k by reach (direct)", ("5", "10", "100"), ("0", "2")),
        ("top_k by reach (con)", ("5", "10", "100"), ("0", "2")),
    ]
    by_id = {row.run_id: row for row in rows}
    for grid, reading in zip(found, ("direct", "con"), strict=True):
        at = [[by_id[run_id] for run_id in line] for line in grid.cells]
        assert [[(row.parameters["top_k"], row.parameters["reach"]) for row in line] for line in at] == [
            [(top_k, reach) for reach in (0, 2)] for top_k in (5, 10, 100)
        ]
        assert {row.reading for line in at for row in line} == {reading}


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        # One parameter and the reading, of one memory of several.
        (
            [setup("bm25"), *(setup("hybrid", reading=r, top_k=k) for r in ("direct", "con") for k in (5, 10))],
            ["top_k by reading (hybrid)"],
        ),
        ([setup(m, reading=r) for m in ("bm25", "hybrid") for r in ("direct", "con")], ["memory by reading"]),
        # Memories under budgets have a table of their own.
        ([setup(f"{m} budget={b}", budget=b) for m in ("bm25", "hybrid") for b in (500, 1000)], []),
        # One combination is missing; only one setting varies; three vary.
        ([setup("m", reading=r, top_k=k) for r, k in (("direct", 5), ("direct", 10), ("con", 5))], []),
        ([setup("m", top_k=k) for k in (5, 10)], []),
        ([setup("m", top_k=k, reach=r, x=x) for k in (5, 10) for r in (0, 1) for x in (0, 1)], []),
    ],
)
def test_what_is_a_grid_and_what_is_none(rows: list[Setup], titles: list[str]) -> None:
    assert [grid.title for grid in grids(rows)] == titles
