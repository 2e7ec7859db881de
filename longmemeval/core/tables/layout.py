"""Fitting tables into a terminal: prose takes more lines, columns are left out by rank, the rest goes below.

No word, figure or interval is ever broken.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len

from longmemeval.core.tables.table import Table
from longmemeval.core.text.figures import UNKNOWN

_LEAST_PROSE = 12
"""Columns of prose are not squeezed further, where their text is longer."""
_NOTHING = {"", "0", UNKNOWN, "$0", "0.0"}
_LONG_ID = 30
"""Longer run ids go by letters wherever they would make a column."""


class Block(Struct, frozen=True):
    """One table with the width of each column, in characters."""

    table: Table
    widths: list[int]


class Fitted(Struct, frozen=True):
    """The part of a table that is shown."""

    blocks: list[Block]
    """One table, or several below each other that repeat the first column."""
    left_out: list[str]
    """Headings of the columns that are not shown."""


def fit(table: Table, width: int) -> Fitted:
    """Return the table for a terminal of `width` characters.

    Of the columns that may go, those whose cells are all zero go first, then those that say nothing else of the rows.
    """
    columns = list(range(len(table.columns)))
    going = sorted((place for place in columns if table.columns[place].drop), key=lambda place: _worth(table, place))
    left_out: list[int] = []
    for candidate in going:
        if _least(table, columns) <= width:
            break
        columns.remove(candidate)
        left_out.append(candidate)
    for candidate in reversed(left_out):  # What went in vain, since a wider one had to go after it, comes back.
        more = sorted([*columns, candidate])
        if _least(table, more) <= width and not _texts(table, candidate) <= _NOTHING:
            columns = more
    chosen = table.only(columns)
    fits = _least(chosen, range(len(columns))) <= width
    groups = [list(range(len(columns)))] if fits else _groups(chosen, width)
    tables = [chosen.only(groups[0]), *(chosen.only(group).with_title("") for group in groups[1:])]
    missing = [one_line(column.title) for place, column in enumerate(table.columns) if place not in columns]
    return Fitted([_block(one, width) for one in tables], missing)


def _worth(table: Table, place: int) -> tuple[bool, bool, int]:
    """Return how much a column says, the least first."""
    column, cells = table.columns[place], _texts(table, place)
    alike = len(table.rows) > 1 and len(cells) == 1 and (column.kind == "text" or cells <= _NOTHING)
    return cells != {"0"}, not alike, -column.drop


def _texts(table: Table, place: int) -> set[str]:
    return {row[place] for row in table.rows}


def one_line(text: str) -> str:
    """Return a heading, or a cell, without its line ends."""
    return " ".join(text.split())


def fits(table: Table, width: int) -> bool:
    """Return whether the table is shown whole, each cell as it is."""
    return _total(_naturals(table)) <= width


def letters(run_ids: Sequence[str], tables: Sequence[Table], width: int | None) -> dict[str, str]:
    """Return run id to letter where ids are long or the columns that matter do not fit in one table; else nothing."""
    wide = width is not None and not all(_is_one(fit(table, width), width) for table in tables)
    if not wide and max(map(len, run_ids), default=0) <= _LONG_ID:
        return {}
    return lettered(run_ids)


def _is_one(fitted: Fitted, width: int) -> bool:
    return len(fitted.blocks) == 1 and _total(fitted.blocks[0].widths) <= width


def lettered(run_ids: Sequence[str]) -> dict[str, str]:
    """Run id to letter, in their order."""
    return {run_id: letter_of(index) for index, run_id in enumerate(run_ids)}


def legend(found: Mapping[str, str]) -> list[str]:
    """Return what the letters stand for, a line each."""
    return [f"{letter}: {run_id}" for run_id, letter in found.items()]


def letter_of(index: int) -> str:
    """Return the letter of run `index`, from 0, in charts and tables: A to Z, then A2 and so on."""
    round_, place = divmod(index, 26)
    return chr(ord("A") + place) + (str(round_ + 1) if round_ else "")


def _block(table: Table, width: int) -> Block:
    """Columns as wide as their text; columns of prose share what is left."""
    natural = _naturals(table)
    widths = [_least_of(table, index) for index in range(len(natural))]
    spare = width - _total(widths)
    prose = [index for index, column in enumerate(table.columns) if column.kind == "prose"]
    for index in sorted(prose, key=lambda index: natural[index] - widths[index]):
        wanting = sum(natural[one] > widths[one] for one in prose)
        more = min(natural[index] - widths[index], max(spare, 0) // max(wanting, 1))
        widths[index] += more
        spare -= more
    return Block(table, widths)


def _groups(table: Table, width: int) -> list[list[int]]:
    """Places of columns, as many in each group as fit beside the first column."""
    groups: list[list[int]] = []
    for index in range(1, len(table.columns)):
        if groups and _least(table, [*groups[-1], index]) <= width:
            groups[-1].append(index)
        else:
            groups.append([0, index])
    return groups or [[0]]


def _least(table: Table, columns: Sequence[int]) -> int:
    return _total([_least_of(table, index) for index in columns])


def _least_of(table: Table, index: int) -> int:
    natural = _natural(table, index)
    if table.columns[index].kind != "prose":
        return natural
    words = max((cell_len(word) for text in _cells(table, index) for word in text.split()), default=0)
    return max(words, min(natural, _LEAST_PROSE))


def _naturals(table: Table) -> list[int]:
    return [_natural(table, index) for index in range(len(table.columns))]


def _natural(table: Table, index: int) -> int:
    return max((cell_len(line) for text in _cells(table, index) for line in text.split("\n")), default=0)


def _cells(table: Table, index: int) -> list[str]:
    return [table.columns[index].title, *(row[index] for row in table.rows)]


def _total(widths: Sequence[int]) -> int:
    """Two characters between columns, one and two at the ends."""
    return sum(widths) + 2 * len(widths) + 1
