"""Printing: results to standard output, everything else to standard error."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from longmemeval.redaction import hide
from longmemeval.report.table import Table

# In a pipe or a file nothing is known of the reader's width: wide enough that no run id is broken in two.
out = Console(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


class _HidingStream(TextIOWrapper):
    """A stream in front of the bytes of another; what is written loses its secrets on the way."""

    def __init__(self, stream: TextIOWrapper) -> None:
        stream.flush()
        super().__init__(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)

    def write(self, text: str) -> int:
        super().write(hide(text))
        return len(text)

    def close(self) -> None:
        """Leave the bytes open: they are those of the other stream."""
        if not self.buffer.closed:
            self.flush()


@contextmanager
def hiding_secrets() -> Iterator[None]:
    """Standard output and error hold no secrets meanwhile, whoever prints: tracebacks, logs, libraries."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_HidingStream(one) if isinstance(one, TextIOWrapper) else one for one in before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def printable(text: str) -> str:
    """Text from data made safe for a terminal: control characters shown as escapes, rich markup disarmed."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return escape(shown)


def print_json(document: object) -> None:
    """Print one JSON document (records, dicts, numbers) and nothing else."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    out.file.write(text + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print texts that may come from data, each on a line of its own."""
    for line in lines:
        out.print(printable(line))


def print_table(table: Table) -> None:
    """Print a table; title, headings and cells may come from data."""
    shown = RichTable(
        title=printable(table.title) or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for index, column in enumerate(table.columns):
        shown.add_column(printable(column), justify="left" if index in table.left else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(printable, row))
    out.print(shown)
