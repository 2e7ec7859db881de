"""Fitting tables into a terminal: prose takes more lines, low-ranking columns are left out, others move below.

No word, figure or interval is ever broken.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len

from longmemeval.core.tables.table import Table
from longmemeval.core.text.figures import UNKNOWN

_LEAST_PROSE = 12
"""Minimum width of a column of prose with longer text."""
_NOTHING = {"", "0", UNKNOWN, "$0", "0.0"}


class Block(Struct, frozen=True):
    """One table with the width of each column, in characters."""

    table: Table
    widths: list[int]


class Fitted(Struct, frozen=True):
    """The part of a table that fits."""

    blocks: list[Block]
    """One table, or several below each other that repeat the first column."""
    left_out: list[str]
    """Headings of the columns that are not shown."""


def fit(table: Table, width: int) -> Fitted:
    """Return the table for a terminal of `width` characters.

    Among the columns that may be left out, those whose cells are all zero go first, then those that do not distinguish
    the rows.
    """
    columns = list(range(len(table.columns)))
    going = sorted((place for place in columns if table.columns[place].drop), key=lambda place: _worth(table, place))
    left_out: list[int] = []
    for candidate in going:
        if _least(table, columns) <= width:
            break
        columns.remove(candidate)
        left_out.append(candidate)
    for candidate in reversed(left_out):  # A column comes back if leaving out a wider one afterwards made room for it.
        more = sorted([*columns, candidate])
        if _least(table, more) <= width and not _texts(table, candidate) <= _NOTHING:
            columns = more
    chosen = table.only(columns)
    fits = _least(chosen, range(len(columns))) <= width
    groups = [list(range(len(columns)))] if fits else _groups(chosen, width)
    tables = [chosen.only(groups[0]), *(chosen.only(group).with_title("") for group in groups[1:])]
    missing = [one_line(column.title) for place, column in enumerate(table.columns) if place not in columns]
    return Fitted([_block(part, width) for part in tables], missing)


def _worth(table: Table, place: int) -> tuple[bool, bool, int]:
    """Return the sort key of a column: the columns that say least come first."""
    column, cells = table.columns[place], _texts(table, place)
    alike = len(table.rows) > 1 and len(cells) == 1 and (column.kind == "text" or cells <= _NOTHING)
    return cells != {"0"}, not alike, -column.drop


def _texts(table: Table, place: int) -> set[str]:
    return {row[place] for row in table.rows}


def one_line(text: str) -> str:
    """Return a heading or a cell without line ends."""
    return " ".join(text.split())


def fits(table: Table, width: int) -> bool:
    """Return whether `width` characters show the whole table, with each cell on one line."""
    return _total(_naturals(table)) <= width


def lettered(run_ids: Sequence[str]) -> dict[str, str]:
    """Map run ids to letters, in order."""
    return {run_id: letter_of(index) for index, run_id in enumerate(run_ids)}


def legend(letters: Mapping[str, str]) -> list[str]:
    """Return the legend of the letters, one line for each."""
    return [f"{letter}: {run_id}" for run_id, letter in letters.items()]


def letter_of(index: int) -> str:
    """Return the letter of run `index`, from 0, in charts and tables: A to Z, then A2 to Z2 and so on."""
    round_, place = divmod(index, 26)
    return chr(ord("A") + place) + (str(round_ + 1) if round_ else "")


def _block(table: Table, width: int) -> Block:
    """Make columns as wide as their text; columns of prose share the remaining width."""
    natural = _naturals(table)
    widths = [_least_of(table, index) for index in range(len(natural))]
    spare = width - _total(widths)
    prose = [index for index, column in enumerate(table.columns) if column.kind == "prose"]
    for index in sorted(prose, key=lambda index: natural[index] - widths[index]):
        wanting = sum(natural[place] > widths[place] for place in prose)
        more = min(natural[index] - widths[index], max(spare, 0) // max(wanting, 1))
        widths[index] += more
        spare -= more
    return Block(table, widths)


def _groups(table: Table, width: int) -> list[list[int]]:
    """Return groups of column positions, each with as many as fit beside the first column."""
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
    """Return the width of a table: two characters between columns, and one and two at the ends."""
    return sum(widths) + 2 * len(widths) + 1
