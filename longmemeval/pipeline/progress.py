"""Show progress on standard error: a bar in a terminal, a line a minute in a pipe, or events as JSON."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from longmemeval.core.text.figures import duration

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["auto", "json", "off"]
"""`auto`: a bar in a terminal, else a line a minute."""

_LOOK_AGAIN_S = 0.2
"""Seconds between two calls of `within`."""
_LINE_EVERY_S = 60.0
"""Seconds between two lines if there is no terminal."""
_style: Style = "auto"
_counts: list["_Count"] = []
"""The running counts if there is no terminal, the innermost last."""


def show_progress(style: Style) -> None:
    """Set how progress is shown in this process from now on."""
    global _style
    _style = style


class Progress(Protocol):
    """A progress bar."""

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Report `steps` more, and optionally a short text shown next to the bar."""
        ...


class _Count:
    """The count of reported steps; shows nothing by itself."""

    def __init__(self, title: str, total: int) -> None:
        self.title = title
        self.total = total
        self.done = 0
        self._began = time.monotonic()

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Count `steps` more."""
        self.done += steps

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def per_second(self) -> float | None:
        return self.done / self.seconds if self.done and self.seconds else None

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) / self.per_second if self.per_second else None

    def line(self) -> str:
        """Return a sentence with count, rate and time left."""
        rate = f", {self.per_second:.1f}/s" if self.per_second else ""
        left = f", {duration(self.seconds_left)} left" if self.seconds_left else ""
        return f"{self.title}: {self.done:,} of {self.total:,}{rate}{left}"


class _Events(_Count):
    """A count that writes a line of JSON to standard error at its beginning, each report and its end."""

    def __init__(self, title: str, total: int) -> None:
        super().__init__(title, total)
        self._lock = Lock()

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Report `steps` more."""
        with self._lock:
            super().advance(steps)
            self.write("step", note)

    def write(self, event: str, note: str = "") -> None:
        """Write one event."""
        fields = {
            "event": event,
            "title": self.title,
            "done": self.done,
            "total": self.total,
            "seconds": round(self.seconds, 3),
            "per_second": self.per_second,
            "seconds_left": self.seconds_left,
            **({"note": note} if note else {}),
        }
        sys.stderr.write(msgspec.json.encode(fields).decode() + "\n")
        sys.stderr.flush()


@contextmanager
def progress(title: str, total: int, within: Callable[[], str] = str) -> Iterator[Progress]:
    """Show the progress of `total` steps, with rate and time left, on standard error.

    Args:
        within: returns a short text on the steps in progress; called now and then.
    """
    if _style == "json":
        events = _Events(title, total)
        events.write("begin")
        try:
            yield events
        finally:
            events.write("end")
        return
    if _style == "off" or total == 0:
        yield _Count(title, total)
        return
    from rich.console import Console

    from longmemeval.core.http import current_wait

    def now() -> str:
        return ", ".join(filter(None, (within(), current_wait())))

    console = Console(stderr=True)
    with _bar(console, title, total, now) if console.is_terminal else _lines(title, total, now) as shown:
        yield shown


@contextmanager
def _every(seconds: float, show: Callable[[], None]) -> Iterator[None]:
    """Call `show` every `seconds` inside the context, in a thread."""
    ended = Event()

    def look() -> None:
        while not ended.wait(seconds):
            show()

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


@contextmanager
def _lines(title: str, total: int, within: Callable[[], str]) -> Iterator[Progress]:
    from longmemeval.core.http import current_wait

    count, waits = _Count(title, total), False

    def show() -> None:
        sys.stderr.write(", ".join(filter(None, (count.line(), within()))) + "\n")
        sys.stderr.flush()

    def tell() -> None:
        nonlocal waits
        waits, before = bool(current_wait()), waits
        if waits and not before:
            show()

    _counts.append(count)
    try:
        with _every(_LINE_EVERY_S, show), _every(_LOOK_AGAIN_S, tell):
            yield count
    finally:
        _counts.remove(count)


def how_far() -> str | None:
    """Return the progress of the innermost running work; empty before any begins; None if no lines are wanted."""
    if _style != "auto":
        return None
    return _counts[-1].line() if _counts else ""


@contextmanager
def _bar(console: "Console", title: str, total: int, within: Callable[[], str]) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        TextColumn("{task.fields[within]}"),
    )
    with RichProgress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=total, note="", rate="", within="")

        class _Bar:
            def advance(self, steps: int = 1, *, note: str = "") -> None:
                """Move the bar."""
                bars.update(task, advance=steps, note=note)
                speed = bars.tasks[0].speed
                bars.update(task, rate=f"{speed:.1f}/s" if speed else "")

        with _every(_LOOK_AGAIN_S, lambda: bars.update(task, within=within())):
            yield _Bar()
