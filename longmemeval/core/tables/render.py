"""Tables as text for a terminal, as HTML and as Markdown; rows of data as CSV."""

import csv as csv_writer
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from longmemeval.core.tables.layout import Block, fit, one_line
from longmemeval.core.tables.table import Link, Table, Value
from longmemeval.core.text.visible import escaped, visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def fitted(table: Table, width: int) -> tuple[str, list["RichTable"], str]:
    """Return title, tables for rich, and a note on columns left out, for a table of at most `width` characters."""
    columns = tuple(replace(column, title=escaped(column.title)) for column in table.columns)
    safe = Table(escaped(table.title), columns, [list(map(escaped, row)) for row in table.rows], table.breaks)
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
    for place, row in enumerate(block.table.rows, start=1):
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
    """Return the table as HTML that scrolls in its own box if it is too wide.

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
        f'<div class="box" tabindex="0" role="region" aria-label="{named}">\n<table>\n{caption}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _html_row(table: Table, place: int, row: Sequence[str]) -> str:
    """Return a row; its first text cell is its heading."""
    kinds = [column.kind for column in table.columns]
    name = next((place for place, kind in enumerate(kinds) if kind != "figure"), None)
    cells = "".join(
        f'<th scope="row" class="text name">{_html_cell(cell)}</th>'
        if place == name
        else f"<td{_class(kinds[place])}>{_html_cell(cell)}</td>"
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
