"""Verify several subjects: runs by name, pattern or sweep, preparations, and folders wherever they are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import randrange

from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.verify.remake import Remaker
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
    seed: int | None = None,
    folders: Folders,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Verification]:
    """Check runs and preparations; those given as folders come last.

    Args:
        subjects: run ids, patterns such as `demo-*`, preparations or folders.
        sweep: name of a sweep whose runs are checked too.
        dataset: as for `verify`, like `memories` and `public_key`.
        seed: draws what is made again of large runs; None: drawn anew.
        folders: the folders of subjects that are not folders themselves.
        tell: called with each note on runs of a sweep that are left out.

    Raises:
        HarnessError: nothing has a given name.
        IntegrityError: a subject cannot be read at all.
    """
    places = {name: place for name in subjects if (place := place_of(Path(name), folders))}
    names = [name for name in subjects if name not in places]
    if names or sweep is not None:
        names = named_runs(names, folders.results_dir, sweep=sweep, tell=tell)
    remaker = Remaker(randrange(1_000_000) if seed is None else seed)
    return [
        verify(name, dataset=dataset, memories=memories, public_key=public_key, folders=place, remaker=remaker)
        for name, place in [*((name, folders) for name in names), *places.values()]
    ]
