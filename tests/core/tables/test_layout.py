"""Tables fit the terminal: nothing is broken, what is left out is named."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.tables.table import Column, Fitted, Kind, fit, tabulate

Row = Sequence[str]


def cells(*titles: str, prose: Sequence[int] = (), drop: Sequence[int] = ()) -> list[Column[Row]]:
    """Columns of rows of text; `drop`: places of those that may go, the first to go first."""

    def column(place: int, title: str) -> Column[Row]:
        kind: Kind = "prose" if place in prose else "figure" if place else "text"
        return Column(title, lambda row: row[place], kind, len(drop) - drop.index(place) if place in drop else 0)

    return [column(place, title) for place, title in enumerate(titles)]


WIDE = tabulate(
    "t",
    cells("run", "score", "95 % interval", "verdict", "cost", "latency\np50", prose=[3], drop=[5, 4]),
    [["some-run-id", "50.0 %", "[38.1, 63.6]", "better by 27.3 points than all", "$0.1234", "12.5"]],
)


def total(fitted: Fitted) -> int:
    return max(sum(block.widths) + 2 * len(block.widths) + 1 for block in fitted.blocks)


def test_a_table_that_fits_stays_as_it_is() -> None:
    fitted = fit(WIDE, 200)
    assert (len(fitted.blocks), fitted.left_out) == (1, [])
    assert fitted.blocks[0].widths == [11, 6, 13, 30, 7, 7]
    assert total(fitted) == 87


def test_prose_takes_more_lines_before_a_column_goes() -> None:
    fitted = fit(WIDE, 80)
    assert fitted.left_out == []
    assert fitted.blocks[0].widths == [11, 6, 13, 23, 7, 7]


def test_columns_go_by_rank_and_are_named() -> None:
    assert fit(WIDE, 66).left_out == ["latency p50"]
    narrow = fit(WIDE, 54)
    assert narrow.left_out == ["cost", "latency p50"]
    assert narrow.blocks[0].table.headings == ["run", "score", "95 % interval", "verdict"]


def test_a_table_without_ranks_is_continued_below() -> None:
    columns = cells("run", *(f"type {n}" for n in range(6)))
    table = tabulate("t", columns, [["A", *(f"[{n}.0, {n}.5]" for n in range(6))]])
    fitted = fit(table, 42)
    assert [block.table.headings[1:] for block in fitted.blocks] == [
        ["type 0", "type 1", "type 2"],
        ["type 3", "type 4", "type 5"],
    ]
    assert [block.table.title for block in fitted.blocks] == ["t", ""]
    assert fitted.left_out == []


CELLS = st.text(alphabet="abc .,[]%", max_size=20)


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=3), st.integers(20, 120))
def test_nothing_wider_than_the_terminal_unless_two_columns_are(rows: list[list[str]], width: int) -> None:
    table = tabulate("", cells("a", "b", "c", "d", prose=[1], drop=[3, 2]), rows)
    fitted = fit(table, width)
    whole = max(len(cell) for row in rows for cell in row)
    if 2 * whole + 5 <= width:
        assert total(fitted) <= width
    for block in fitted.blocks:
        for place, columns in enumerate(zip(block.table.headings, *block.table.rows, strict=True)):
            longest = max(len(cell) for cell in columns)
            words = max((len(word) for cell in columns for word in cell.split()), default=0)
            assert block.widths[place] >= (words if block.table.columns[place].kind == "prose" else longest)
