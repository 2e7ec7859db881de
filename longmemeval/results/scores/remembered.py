"""Results of checks and computations on runs, cached in a file by the content they depend on: for lists and pages."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from longmemeval.core.caches import SqliteCache, cache_key
from longmemeval.errors import HarnessError
from longmemeval.settings import Folders

V = TypeVar("V")


class Remembered:
    """Cached values by the content of their inputs; other content, or other code, means that they are recomputed.

    A file that cannot be read or written counts as none. Nothing in it was paid for.

    Args:
        path: the file; None: nothing is cached.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._cache: SqliteCache | None = None
        if path is not None:
            with suppress(HarnessError, OSError):
                self._cache = SqliteCache(path)

    @classmethod
    def among(cls, folders: Folders) -> Self:
        """Return the values cached next to the other caches of these folders; none if nothing was prepared here."""
        return cls(folders.cache_dir / "view.sqlite" if folders.prepared_dir.is_dir() else None)

    def of(self, kind: type[V], key_parts: Callable[[], tuple[str, ...]], make: Callable[[], V]) -> V:
        """Return the result of `make`, from the file if the same inputs gave it before.

        Args:
            kind: type of the value; it must survive JSON.
            key_parts: returns a name of the result, and hashes of all its inputs; called only if there is a file.
            make: computes the result if it is not cached; its errors are not cached.
        """
        if self._cache is None:
            return make()
        key = cache_key(_code(), *key_parts())
        with suppress(HarnessError):
            if (found := self._cache.get_record(key, kind)) is not None:
                return found
        value = make()
        with suppress(HarnessError):
            self._cache.put_many({key: msgspec.json.encode(value)})
        return value


@cache
def _code() -> str:
    """Return a fingerprint of this code: its files, Python, and when packages were last installed."""
    package = Path(__file__).parents[2]
    own = [path for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file()]
    installed = [path for name in sys.path if (path := Path(name)).name.endswith("-packages") and path.is_dir()]
    stats = [(str(path), path.stat()) for path in sorted([*own, *installed])]
    return repr((sys.version, [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]))
