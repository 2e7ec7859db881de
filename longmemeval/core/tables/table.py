"""A table: columns, each a title and a value of a record, and a row for every record."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.core.text.figures import UNKNOWN

Record = TypeVar("Record")
Value = str | int | float | bool | None
Kind = Literal["figure", "text", "prose"]
"""Figures stand at the right of their column, text at the left; prose alone may take several lines."""


class Link(str):
    """The text of a cell that leads somewhere; only a page shows where."""

    href: str

    def __new__(cls, text: str, href: str) -> "Link":
        """Make the text of it."""
        made = super().__new__(cls, text)
        made.href = href
        return made


class Column(Struct, Generic[Record], frozen=True):
    """What is shown of every record, under which title."""

    title: str
    value: Callable[[Record], Value]
    """Text is shown as it is, a whole number with its thousands apart, None as a dash."""
    kind: Kind = "figure"
    drop: int = 0
    """Where space is short, the column with the highest number goes first; 0 stays."""


class Heading(Struct, frozen=True):
    """A column of a table that is made."""

    title: str
    kind: Kind
    drop: int


class Table(Struct, frozen=True):
    """One table, cells ready to print; the code that shows it makes their text safe."""

    title: str
    columns: tuple[Heading, ...]
    rows: list[list[str]]
    breaks: frozenset[int] = frozenset()
    """Places of rows that begin a group, set apart from what is above."""

    @property
    def headings(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]

    def with_title(self, title: str) -> "Table":
        """Return the same table under another title."""
        return replace(self, title=title)

    def named(self, names: Mapping[str, str]) -> "Table":
        """Return the same table with other names in the first column."""
        return replace(self, rows=[[names.get(first, first), *rest] for first, *rest in self.rows])

    def only(self, places: Sequence[int]) -> "Table":
        """Return the table with these of its columns."""
        columns = tuple(self.columns[place] for place in places)
        rows = [[row[place] for place in places] for row in self.rows]
        return replace(self, columns=columns, rows=rows)


def tabulate(
    title: str, columns: Sequence[Column[Record]], records: Iterable[Record], *, breaks: Iterable[int] = ()
) -> Table:
    """Return the table of the records.

    Args:
        title: empty for none.
        columns: from left to right.
        records: from top to bottom.
        breaks: places of records, from 0, that begin a group.
    """
    rows = [[shown(column.value(record)) for column in columns] for record in records]
    headings = tuple(Heading(column.title, column.kind, column.drop) for column in columns)
    return Table(title, headings, rows, frozenset(breaks))


def shown(value: Value) -> str:
    """Return a value as a cell shows it."""
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
