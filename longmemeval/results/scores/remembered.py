"""Results of checks and computations on runs, kept in a file by the content they follow from: for lists and pages."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from longmemeval.core.caches.sqlite import SqliteCache, cache_key
from longmemeval.errors import HarnessError
from longmemeval.settings import Folders

V = TypeVar("V")


class Remembered:
    """Values by the content of all that they follow from: of other content, or by other code, they are made anew.

    A file that cannot be read or written is as good as none. Nothing in it was paid for.

    Args:
        path: the file; None: nothing is kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._cache: SqliteCache | None = None
        if path is not None:
            with suppress(HarnessError, OSError):
                self._cache = SqliteCache(path)

    @classmethod
    def among(cls, folders: Folders) -> Self:
        """Return those beside the other caches of these folders; what was never prepared here has none."""
        return cls(folders.cache_dir / "view.sqlite" if folders.prepared_dir.is_dir() else None)

    def of(self, kind: type[V], made_of: Callable[[], tuple[str, ...]], make: Callable[[], V]) -> V:
        """Return what `make` returns, from the file if it was made of the same before.

        Args:
            kind: type of the value; it must survive JSON.
            made_of: returns a name of what is made, and hashes of all it follows from; called where there is a file.
            make: called where it is not known; what it raises is not kept.
        """
        if self._cache is None:
            return make()
        key = cache_key(_code(), *made_of())
        with suppress(HarnessError):
            if (found := self._cache.get_record(key, kind)) is not None:
                return found
        value = make()
        with suppress(HarnessError):
            self._cache.put_many({key: msgspec.json.encode(value)})
        return value


@cache
def _code() -> str:
    """Return what tells this code from any other: its files, Python, and when packages were last installed."""
    package = Path(__file__).parents[2]
    own = [path for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file()]
    installed = [path for name in sys.path if (path := Path(name)).name.endswith("-packages") and path.is_dir()]
    stats = [(str(path), path.stat()) for path in sorted([*own, *installed])]
    return repr((sys.version, [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]))
