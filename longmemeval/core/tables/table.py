"""A table: columns, each with a title and a value per record, and a row for every record."""

import csv as csv_writer
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from longmemeval.core.text.figures import UNKNOWN, escaped, visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable


Record = TypeVar("Record")
Value = str | int | float | bool | None
Kind = Literal["figure", "text", "prose"]
"""Kind of a column. Figures are aligned to the right, text to the left; only prose may take several lines."""


class Link(str):
    """The text of a cell that links somewhere; only a page makes it a link."""

    href: str

    def __new__(cls, text: str, href: str) -> "Link":
        """Return `text` with a link to `href`."""
        link = super().__new__(cls, text)
        link.href = href
        return link


class Column(Struct, Generic[Record], frozen=True):
    """A title, and the value to show for every record."""

    title: str
    value: Callable[[Record], Value]
    """Returns the value of a record. Text is shown as it is, whole numbers with thousands commas, None as a dash."""
    kind: Kind = "figure"
    drop: int = 0
    """Rank for leaving out: if space is short, the column with the highest number goes first; 0 stays."""


class Heading(Struct, frozen=True):
    """A column of a finished table."""

    title: str
    kind: Kind
    drop: int


class Table(Struct, frozen=True):
    """One table, cells ready to print; the code that shows it makes their text safe."""

    title: str
    columns: tuple[Heading, ...]
    rows: list[list[str]]
    breaks: frozenset[int] = frozenset()
    """Positions of the rows that begin a group, set apart from the rows above."""
    last_group: str = ""
    """Heading of the last of several groups, shown above it in a terminal; empty for none."""

    @property
    def headings(self) -> list[str]:
        """Titles of the columns."""
        return [column.title for column in self.columns]

    def with_title(self, title: str) -> "Table":
        """Return the same table under another title."""
        return replace(self, title=title)

    def named(self, names: Mapping[str, str]) -> "Table":
        """Return the same table with other names in the first column."""
        return replace(self, rows=[[names.get(first, first), *rest] for first, *rest in self.rows])

    def only(self, places: Sequence[int]) -> "Table":
        """Return the table with only the columns at `places`."""
        columns = tuple(self.columns[place] for place in places)
        rows = [[row[place] for place in places] for row in self.rows]
        return replace(self, columns=columns, rows=rows)


def tabulate(
    title: str,
    columns: Sequence[Column[Record]],
    records: Iterable[Record],
    *,
    breaks: Iterable[int] = (),
    last_group: str = "",
) -> Table:
    """Return the table of the records.

    Args:
        title: title of the table; empty for none.
        columns: columns from left to right.
        records: records from top to bottom.
        breaks: positions, from 0, of the records that begin a group.
        last_group: see `Table`.
    """
    rows = [[shown(column.value(record)) for column in columns] for record in records]
    headings = tuple(Heading(column.title, column.kind, column.drop) for column in columns)
    return Table(title, headings, rows, frozenset(breaks), last_group)


def shown(value: Value) -> str:
    """Return the text of a cell for a value."""
    if isinstance(value, str):
        return value
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def frame(columns: Sequence[Column[Record]], records: Iterable[Record]) -> list[dict[str, Value]]:
    """Return the records as rows of a data frame: values by title, nothing rounded."""
    return [{column.title: column.value(record) for column in columns} for record in records]


# Fitting tables into a terminal: prose takes more lines, low-ranking columns are left out, others move below.
#
# No word, figure or interval is ever broken.

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
    return " ".join(text.replace("-\n", "-").split())


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


# Tables as text for a terminal, as HTML and as Markdown; rows of data as CSV.

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def fitted(table: Table, width: int) -> tuple[str, list["RichTable"], str]:
    """Return title, tables for rich, and a note on columns left out, for a table of at most `width` characters."""
    columns = tuple(replace(column, title=escaped(column.title)) for column in table.columns)
    rows = [list(map(escaped, row)) for row in table.rows]
    safe = replace(table, title=escaped(table.title), columns=columns, rows=rows)
    layout = fit(safe, width)
    names = ", ".join(layout.left_out)
    left_out = f"Not shown at {width} columns: {names}. Use a wider terminal or --json." if names else ""
    return safe.title, list(map(_rich, layout.blocks)), left_out


def _rich(block: Block) -> "RichTable":
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, width in zip(block.table.columns, block.widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.kind == "figure" else "left"
        table.add_column(Text(column.title), justify=justify, width=width, overflow="fold")
    labelled = max(block.table.breaks, default=-1) if block.table.last_group else -1
    for place, row in enumerate(block.table.rows, start=1):
        if place - 1 == labelled:
            table.add_row(Text(block.table.last_group))
        table.add_row(*map(Text, row), end_section=place in block.table.breaks)
    return table


def text(table: Table, width: int) -> str:
    """Return the table as a terminal of `width` characters shows it, without colours."""
    from rich.console import Console

    title, tables, left_out = fitted(table, width)
    written = io.StringIO()
    console = Console(file=written, width=width, color_system=None, highlight=False, emoji=False, markup=False)
    for part in (title, *tables, wrapped(left_out, width)):
        if part:
            console.print(part, overflow="ignore", crop=False)
    return written.getvalue()


def wrapped(line: str, width: int) -> str:
    """Return a line of text as a terminal of `width` characters shows it, broken only between words."""
    return fill(escaped(line), width, break_long_words=False, break_on_hyphens=False)


def html(table: Table, label: str = "") -> str:
    """Return the table as HTML that scrolls in its own box if it is too wide; pages show each row as a list on a phone.

    Args:
        table: the table; its title becomes the caption.
        label: description for screen readers, if the title does not say what the table is.
    """
    caption = f"<caption>{escape_html(table.title)}</caption>\n" if table.title else ""
    head = "".join(
        f'<th scope="col"{_class(kind)}>{escape_html(title)}</th>'
        for title, kind in ((column.title, column.kind) for column in table.columns)
    )
    body = "\n".join(_html_row(table, place, row) for place, row in enumerate(table.rows))
    named = escape_html(label or table.title or "Figures")
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{named}">\n<table class="stack">\n{caption}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _html_row(table: Table, place: int, row: Sequence[str]) -> str:
    """Return a row; its first text cell is its heading."""
    kinds = [column.kind for column in table.columns]
    name = next((place for place, kind in enumerate(kinds) if kind != "figure"), None)
    cells = "".join(
        f'<th scope="row" class="text name">{_html_cell(cell)}</th>'
        if place == name
        else f'<td{_class(kinds[place])} data-title="{escape_html(table.columns[place].title)}">{_html_cell(cell)}</td>'
        for place, cell in enumerate(row)
    )
    apart = ' class="apart"' if place in table.breaks else ""
    return f"<tr{apart}>{cells}</tr>"


def _html_cell(cell: str) -> str:
    shown = escape_html(cell)
    return f'<a href="{escape_html(cell.href)}">{shown}</a>' if isinstance(cell, Link) else shown


def _class(kind: str) -> str:
    return "" if kind == "figure" else ' class="text"'


def escape_html(plain: str) -> str:
    """Escape a text so that HTML shows it verbatim."""
    return escape(visible(plain))


def escape_markdown(plain: str) -> str:
    """Escape a text so that Markdown shows it verbatim, even in a cell."""
    return _MARKDOWN.sub(r"\\\1", one_line(visible(plain)))


def markdown(table: Table) -> str:
    """Return the table in Markdown, its title in bold above it."""
    rule = ["---:" if column.kind == "figure" else "---" for column in table.columns]
    headings, *rows = ([escape_markdown(cell) for cell in row] for row in (table.headings, *table.rows))
    lines = "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *rows))
    return f"**{escape_markdown(table.title)}**\n\n{lines}" if table.title else lines


def csv(rows: Iterable[Mapping[str, Value]], titles: Sequence[str]) -> str:
    """Return rows of data as CSV (RFC 4180): nothing rounded, unknown values empty.

    A spreadsheet would read text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula, so an
    apostrophe precedes it. Control characters other than tabs and line breaks are written as escapes.
    """
    written = io.StringIO()
    writer = csv_writer.DictWriter(written, titles)
    writer.writeheader()
    writer.writerows({name: _protected(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _protected(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    safe = _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), value)
    return f"'{safe}" if safe.startswith(_FORMULA_SIGNS) else safe
