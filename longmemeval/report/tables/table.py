"""A table as a page, a document or a terminal shows it."""

from msgspec import Struct


class Table(Struct, frozen=True):
    """One table, cells ready to print; the code that shows it makes their text safe."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    left: frozenset[int] = frozenset({0})
    """Columns of text; the others are figures."""
    prose: frozenset[int] = frozenset()
    """Columns whose text may take several lines; figures and names never do."""
    apart: int = 0
    """How many of the last rows are set apart from the others."""
    drop: tuple[int, ...] = ()
    """Columns a narrow terminal may leave out, the first to go first. Without any, the table is continued below."""
