"""Read the progress of preparations from their journals and accounts, from outside the process that runs them."""

import time
from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.core.files import list_folders
from longmemeval.llm.costs import SPENDING, spent_and_limit
from longmemeval.pipeline.status.tail import Counted, Tail, Work, work_on
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord


class PreparationState(Struct, frozen=True):
    """The state of a preparation at one moment."""

    preparation: str
    """Data set and name of the preparation."""
    state: Literal["running", "died", "ended"]
    work: Work
    """Finished and total work in this stage of the running command; after its end, all fixtures."""
    spent_usd: float | None = None
    limit_usd: float | None = None

    @property
    def is_over(self) -> bool:
        """True if no process is working on it."""
        return self.state != "running"


class PreparationWatch:
    """A preparation observed repeatedly.

    Args:
        folder: folder of its fixtures.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tail = Tail(folder / PREPARE_JOURNAL, PrepareRecord)
        self._counted = Counted()
        self._done = 0

    def look(self, now: float | None = None) -> PreparationState:
        """Return the state of the preparation at this moment; `now` in seconds since the epoch."""
        now = time.time() if now is None else now
        for record in self._tail.new():
            # The cost of embedding has a line of its own.
            self._done += record.work == "fixture"
            self._counted.add(self._done)
        work = work_on("prepare", self._tail, self._counted, None, now)
        return PreparationState(
            f"{self.folder.parent.name}/{self.folder.name}",
            "running" if work.alive else "died" if work.died else "ended",
            work,
            *spent_and_limit(self.folder / SPENDING),
        )


def unfinished_preparations(prepared_dir: Path) -> list[PreparationWatch]:
    """Return the preparations that a process is working on, or was working on when it died."""
    found = [folder for dataset in list_folders(prepared_dir) for folder in list_folders(dataset)]
    return [PreparationWatch(folder) for folder in found if (folder / f"{PREPARE_JOURNAL}.lock").exists()]
