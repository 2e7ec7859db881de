"""A table: columns, each with a title and a value per record, and a row for every record."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.core.text.figures import UNKNOWN

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
    title: str, columns: Sequence[Column[Record]], records: Iterable[Record], *, breaks: Iterable[int] = ()
) -> Table:
    """Return the table of the records.

    Args:
        title: title of the table; empty for none.
        columns: columns from left to right.
        records: records from top to bottom.
        breaks: positions, from 0, of the records that begin a group.
    """
    rows = [[shown(column.value(record)) for column in columns] for record in records]
    headings = tuple(Heading(column.title, column.kind, column.drop) for column in columns)
    return Table(title, headings, rows, frozenset(breaks))


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
