"""How a run begins, goes on and ends: one way for answers and for rankings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import structs

from longmemeval.errors import EndpointDownError, HarnessError, SpendingLimitError
from longmemeval.files import sha256_file
from longmemeval.pipeline.runs.answers import ANSWERS, PROMPTS
from longmemeval.pipeline.runs.journal import Journal, StoredJournal
from longmemeval.pipeline.runs.manifest import RunManifest, RunStatus, now, write_manifest
from longmemeval.pipeline.runs.rankings import RANKINGS
from longmemeval.pipeline.runs.resume import begun_or_new

R = TypeVar("R")
_TO_BE_CONTINUED = (SpendingLimitError, EndpointDownError)


@contextmanager
def open_run(stored: StoredJournal[R], new: RunManifest) -> Iterator["OpenRun[R]"]:
    """Begin a run, or go on with one that was begun as it would be now. The journal lock is the run lock.

    Args:
        stored: its answers or rankings, in its folder.
        new: the manifest that the present command would begin with.

    Raises:
        HarnessError: the run was started with other settings, or another process writes to it.
        IntegrityError: its journal is not as the run left it.
    """
    folder = stored.path.parent
    with Journal(stored.path, stored.kind, read=stored) as journal:
        yield OpenRun(folder, journal, begun_or_new(folder, journal, new))


class OpenRun(Generic[R]):
    """A run that this process may write to.

    Args:
        folder: the run's.
        journal: its answers or rankings.
        manifest: as the run was begun.
    """

    def __init__(self, folder: Path, journal: Journal[R], manifest: RunManifest) -> None:
        self.folder = folder
        self.journal = journal
        self.manifest = manifest
        self.written: dict[str, StoredJournal[Any]] = {}
        """Other journals that were written in this session, by name."""
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since this session began."""
        return time.perf_counter() - self._started

    @contextmanager
    def session(self, missing: Callable[[], int], totals: Callable[[], dict[str, Any]]) -> Iterator[None]:
        """Around the work of this session: the manifest is written before and after, also when it fails.

        A run of which nothing is missing is not written to, unless it was killed before it could say so.

        Args:
            missing: how many questions are still to be done.
            totals: of the whole run so far.
        """
        if not missing():
            if self.manifest.status != "completed":
                self._close("completed", totals)
            yield
            return
        self._started = time.perf_counter()
        write_manifest(self.folder, structs.replace(self.manifest, status="running", ended_at="", files={}))
        try:
            yield
        except BaseException as error:
            # Where the disk is full, the manifest cannot be written either; the error to tell is the first one.
            with suppress(HarnessError):
                self._close(_status_after(error), totals)
                if isinstance(error, _TO_BE_CONTINUED):
                    asked = len(self.manifest.question_ids)
                    kept = f"{asked - missing()} of {asked} {self.journal.path.stem} are kept"
                    error.where = f"run '{self.manifest.run_id}': {kept}"
            raise
        self._close("incomplete" if missing() else "completed", totals)

    def _close(self, status: RunStatus, totals: Callable[[], dict[str, Any]]) -> None:
        files = {name: self._hash(name) for name in (ANSWERS, PROMPTS, RANKINGS) if (self.folder / name).exists()}
        closed = structs.replace(self.manifest, status=status, ended_at=now(), totals=totals(), files=files)
        write_manifest(self.folder, closed)

    def _hash(self, name: str) -> str:
        if name == self.journal.path.name:
            return self.journal.sha256()
        return self.written[name].sha256 if name in self.written else sha256_file(self.folder / name)


def _status_after(error: BaseException) -> RunStatus:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "incomplete" if isinstance(error, _TO_BE_CONTINUED) else "failed"
