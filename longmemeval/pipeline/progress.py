"""Progress on standard error: a bar where a person looks, nothing in a pipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Protocol

_LOOK_AGAIN_S = 0.2
"""Between two questions how far the steps under way have come."""


class Progress(Protocol):
    """A bar under way."""

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Report `steps` more, and optionally a short text shown beside the bar."""
        ...


class _Silent:
    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Show nothing."""


@contextmanager
def progress(title: str, total: int, within: Callable[[], str] = str) -> Iterator[Progress]:
    """A progress bar of `total` steps with rate and time left, on standard error if that is a terminal.

    Args:
        title: of the bar.
        total: how many steps.
        within: asked now and then how far the steps under way have come; a short text shown beside the bar.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or total == 0:
        yield _Silent()
        return
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

        ended = Event()

        def look() -> None:
            while not ended.wait(_LOOK_AGAIN_S):
                bars.update(task, within=within())

        looking = Thread(target=look, daemon=True)
        looking.start()
        try:
            yield _Bar()
        finally:
            ended.set()
            looking.join()
