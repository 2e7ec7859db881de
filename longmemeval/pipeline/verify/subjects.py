"""Verify several subjects: runs by name, pattern or sweep, preparations, and folders wherever they are."""

from collections.abc import Callable, Sequence
from pathlib import Path

from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.verify.verify import Verification, place_of, verify
from longmemeval.results.listing import named_runs
from longmemeval.settings import Folders


def verify_all(
    subjects: Sequence[str],
    *,
    sweep: str | None = None,
    dataset: str | None = None,
    memories: Sequence[MemoryConfiguration | str] = (),
    public_key: Path | None = None,
    folders: Folders,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Verification]:
    """Check runs and preparations, those that lie in folders last.

    Args:
        subjects: run ids, patterns such as `demo-*`, preparations or folders.
        sweep: name of a sweep whose runs are checked too.
        dataset: as of `verify`, like the others.
        memories: likewise.
        public_key: likewise.
        folders: the folders of what is not named by its own.
        tell: called with each note on runs of a sweep that are left out.

    Raises:
        HarnessError: there is nothing of a name.
        IntegrityError: what a name means cannot be read at all.
    """
    places = {name: place for name in subjects if (place := place_of(Path(name), folders))}
    names = [name for name in subjects if name not in places]
    if names or sweep is not None:
        names = named_runs(names, folders.results_dir, sweep=sweep, tell=tell)
    return [
        verify(name, dataset=dataset, memories=memories, public_key=public_key, folders=place)
        for name, place in [*((name, folders) for name in names), *places.values()]
    ]
