"""Printing: results to standard output, everything else to standard error."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from longmemeval.core.remote.places import as_addresses
from longmemeval.core.secrets.redaction import hide
from longmemeval.core.text.figures import escaped

if TYPE_CHECKING:
    from longmemeval.core.tables.table import Table

_PIPE_WIDTH = 200
_ALIGNED = 60
"""Length of a command line up to which the comments behind several are aligned."""

Step = tuple[str, str]
"""A command line to type next, and what it does, as the comment behind it."""


class Terminal:
    """Standard output or error; lines break only between words, and only if the reader's width is known.

    In a pipe or a file it is unknown unless COLUMNS is set: each sentence then stays on one line, and tables may be
    `_PIPE_WIDTH` wide.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        known = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
        width = None if known else _PIPE_WIDTH
        self.console = Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=not known, width=width)

    @property
    def width(self) -> int:
        """Number of characters on a line."""
        return self.console.width

    @property
    def file(self) -> IO[str]:
        """The stream that is written to."""
        return self.console.file

    def print(self, what: RenderableType = "") -> None:
        """Print text with rich's markup, or a table; a word longer than the line, such as a path, stays whole."""
        if isinstance(what, str) and not self.console.soft_wrap:
            what = _wrapped(Text.from_markup(as_addresses(what)), self.width)  # As wide as it will be shown.
        self.console.print(what, overflow="ignore", crop=False)

    def next(self, *steps: "Step") -> None:
        """Print command lines to copy, each with a comment; none is broken, however long."""
        if steps:
            self.console.print("Next steps:")
        lengths = [len(escaped(command)) for command, _ in steps]
        width = max((length for length in lengths if length <= _ALIGNED), default=0)
        for command, does in steps:
            line = Text(f"  {escaped(command):<{width}}   # {does}")
            self.console.print(line, overflow="ignore", no_wrap=True, crop=False)


def _wrapped(text: Text, width: int) -> Text:
    """Return the text with a line break for the space at the end of each full line."""
    lines = []
    for line in text.split(allow_blank=True):
        breaks, start = [], 0
        for word in re.finditer(r"\S+", line.plain):
            if word.start() > start and cell_len(line.plain[start : word.end()]) > width:
                breaks.append(word.start())
                start = word.start()
        for piece in line.divide(breaks):
            piece.rstrip()
            lines.append(piece)
    return Text("\n").join(lines)


out = Terminal()
err = Terminal(stderr=True)


_printed = Event()


def has_printed() -> bool:
    """Return whether this command has printed anything to standard output or error so far."""
    return _printed.is_set()


class OutputError(OSError):
    """Standard output or error cannot be written, for instance because the disk is full."""


class _HidingStream(TextIOWrapper):
    """A stream in front of another stream's bytes; it removes secrets from everything written.

    Raises:
        OutputError: from `write` and `flush`, if the bytes cannot be written; not if their reader is gone.
    """

    def __init__(self, stream: TextIOWrapper) -> None:
        stream.flush()
        super().__init__(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
        self._behind = stream  # It would close the bytes when it is collected.

    def write(self, text: str) -> int:
        _printed.set()
        with _as_output_error():
            super().write(as_addresses(hide(text)))
        return len(text)

    def flush(self) -> None:
        """Write out buffered text."""
        with _as_output_error():
            super().flush()

    def close(self) -> None:
        """Leave the bytes open: they belong to the other stream."""
        if not self.buffer.closed:
            self.flush()


@contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from None


def reserve_output() -> None:
    """Reserve standard output for `out`.

    Everything that the code of a memory prints, even from C or from a process of its own, goes to standard error from
    now on: with `--json` it would end up before or inside the document.
    """
    stream = sys.stdout
    with suppress(OSError, ValueError):  # There is no file behind it, as in a notebook.
        if stream.fileno() == 1 and isinstance(stream, TextIOWrapper):
            stream.flush()
            duplicate = os.fdopen(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors)
            os.dup2(2, 1)
            out.console.file = _HidingStream(duplicate)
            sys.stdout = sys.stderr


def discard_output() -> None:
    """Discard the rest of standard output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (out.file, sys.stdout):
        os.dup2(nowhere, stream.fileno())


@contextmanager
def hiding_secrets() -> Iterator[None]:
    """Keep secrets out of standard output and error meanwhile, no matter what prints: tracebacks, logs, libraries."""
    _printed.clear()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        _HidingStream(original) if isinstance(original, TextIOWrapper) else original for original in before
    )
    try:
        yield
    finally:
        try:
            for stream in (out.file, sys.stdout, sys.stderr):
                stream.flush()
        finally:
            sys.stdout, sys.stderr = before


def printable(text: str) -> str:
    """Return text from data made safe for a terminal: control characters as escapes, rich markup disarmed."""
    return escape(escaped(text))


def print_json(document: object) -> None:
    """Print one JSON document (records, dicts, numbers) and nothing else."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    out.file.write(text + "\n")


def print_documents(documents: Sequence[object], called: str = "runs") -> None:
    """Print one JSON document: a single document as it is, several under the key `called`."""
    print_json(documents[0] if len(documents) == 1 else {called: documents})


def print_json_line(document: object) -> None:
    """Print one JSON document on one line, at once: there are more to come."""
    out.file.write(msgspec.json.encode(document).decode() + "\n")
    out.file.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print texts that may come from data, each on a line of its own."""
    for line in lines:
        out.print(printable(line))


def print_table(table: "Table") -> None:
    """Print a table no wider than the terminal; title, headings and cells may come from data."""
    from longmemeval.core.tables.table import fitted

    title, parts, left_out = fitted(table, out.width)
    if title:
        out.print(f"[bold]{escape(title)}[/]")
    for part in parts:
        out.print(part)
    if left_out:
        out.print(escape(left_out))


def write_output(file: Path, text: str) -> None:
    """Write the output to a file instead of printing it, completely or not at all."""
    from longmemeval.core.files import write_atomic

    write_atomic(file, text.encode())


def print_answer(parts: "Iterable[str | Table]") -> None:
    """Print lines and tables, the first line in bold: it is the answer."""
    for place, part in enumerate(parts):
        if not isinstance(part, str):
            print_table(part)
        else:
            out.print(printable(part) if place else f"[bold]{printable(part)}[/]")


def print_row(cells: Iterable[tuple[str, int | None]]) -> None:
    """Print one row of a table whose rows come one by one, at once.

    Args:
        cells: text and width of each; None: the rest of the line.
    """
    row, texts = RichTable.grid(padding=(0, 2, 0, 0)), []
    for text, width in cells:
        row.add_column(width=width)
        texts.append(Text(escaped(text)))
    row.add_row(*texts)
    out.print(Padding(row, (0, 0, 0, 1)))
    out.file.flush()


def warn(line: str) -> None:
    """Print a note that may come from data to standard error."""
    err.print(printable(line))


def warn_omitted(what: str) -> None:
    """Report on standard error which runs `--sweep` leaves out."""
    warn(f"Not part of the sweep: {what}.")
