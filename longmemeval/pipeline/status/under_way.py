"""Observe runs and preparations together: named ones, or unfinished and recently ended ones."""

import time
from collections.abc import Sequence

from msgspec import Struct

from longmemeval.pipeline.status.preparations import PreparationState, PreparationWatch, unfinished_preparations
from longmemeval.pipeline.status.runs import RunState, RunWatch, is_unfinished
from longmemeval.results.listing import DAMAGED, PLANNED, ListedRun
from longmemeval.results.manifest import run_folder, run_ids, runs_by_change
from longmemeval.settings import Folders

_RECENT_S = 86_400.0
_MOST_RECENT = 10


class UnderWay(Struct, frozen=True):
    """The states of runs and preparations at one moment."""

    runs: tuple[RunState, ...]
    preparations: tuple[PreparationState, ...]

    @property
    def every(self) -> tuple[RunState | PreparationState, ...]:
        """All states, runs first."""
        return (*self.runs, *self.preparations)

    @property
    def is_over(self) -> bool:
        """True if no process is working on any of them."""
        return all(state.is_over for state in self.every)


class Watching:
    """Runs and preparations observed repeatedly.

    Args:
        runs: each keeps its place in the lists of states.
        preparations: likewise.
        joining: folders in which work that begins meanwhile is observed too: runs to the end, preparations
            as long as they are unfinished; None: only named work.
    """

    def __init__(
        self,
        runs: Sequence[RunWatch] = (),
        preparations: Sequence[PreparationWatch] = (),
        *,
        joining: Folders | None = None,
    ) -> None:
        self._runs = {watch.folder: watch for watch in runs}
        self._preparations = {watch.folder: watch for watch in preparations}
        self._joining = joining

    def look(self) -> UnderWay:
        """Return the state of all of them at this moment."""
        if self._joining:
            self._join(self._joining)
        runs, preparations = self._runs.values(), self._preparations.values()
        return UnderWay(tuple(watch.look() for watch in runs), tuple(watch.look() for watch in preparations))

    def _join(self, folders: Folders) -> None:
        for folder in (folders.results_dir / run for run in run_ids(folders.results_dir)):
            if folder not in self._runs and is_unfinished(folder):
                self._runs[folder] = RunWatch(folder)
        unfinished = unfinished_preparations(folders.prepared_dir)
        self._preparations = {watch.folder: self._preparations.get(watch.folder, watch) for watch in unfinished}


def watch_named(run_ids: Sequence[str], folders: Folders) -> Watching:
    """Return a watch of these runs.

    Raises:
        HarnessError: there is no such run; names the nearest id.
    """
    return Watching([RunWatch(run_folder(folders.results_dir, run_id)) for run_id in run_ids])


def watch_recent(folders: Folders, now: float | None = None) -> Watching:
    """Return a watch of unfinished work, and of at most ten runs that ended within the last day.

    Unfinished runs come first, then those that ended last.

    Args:
        now: seconds since the epoch; None: this moment.
    """
    since = (time.time() if now is None else now) - _RECENT_S
    changed = runs_by_change(folders.results_dir)
    unfinished = [run for run in changed if is_unfinished(folders.results_dir / run)]
    ended = [run for run in changed if run not in unfinished and changed[run] >= since]
    watched = [RunWatch(folders.results_dir / run) for run in (*unfinished, *ended[:_MOST_RECENT])]
    return Watching(watched, unfinished_preparations(folders.prepared_dir))


def state_of_unfinished(listed: ListedRun, folders: Folders) -> RunState | None:
    """Return the state of a listed run that has not ended; None for any other."""
    folder = folders.results_dir / listed.run
    return RunWatch(folder).look() if listed.status not in (DAMAGED, PLANNED) and is_unfinished(folder) else None
