"""The scores of a run in its `metrics/` folder."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from msgspec import structs

from longmemeval.core.caches import SqliteCache, cache_key
from longmemeval.core.text_files import UnreadableError, decode_format
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.template_set import is_official
from longmemeval.measures.metrics import METRICS_FORMAT, Metrics
from longmemeval.settings import Folders


def stored_metrics(folder: Path) -> list[Metrics]:
    """Return the scores of a run by all its judges, the newest last.

    Scores that version 0.2 called official by a judge that has changed since no longer are.

    Raises:
        IntegrityError: a file of scores is damaged.
    """
    files = sorted((folder / "metrics").glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [_confirm_official(read_metrics(path)) for path in files]


def read_metrics(path: Path) -> Metrics:
    """Return one file of scores, unchanged.

    Raises:
        IntegrityError: it is damaged.
        HarnessError: it is of a newer format.
    """
    try:
        return decode_format(path.read_bytes(), Metrics, METRICS_FORMAT, "The file of scores", str(path))
    except UnreadableError as error:
        raise IntegrityError(
            f"The scores are damaged: {error}",
            where=str(path),
            fix="Delete it and run `longmemeval evaluate` again: it is made from the judgements",
        ) from error


def _confirm_official(metrics: Metrics) -> Metrics:
    if metrics.format == METRICS_FORMAT:
        return metrics
    official = metrics.judge.official and is_official(metrics.judge)
    return structs.replace(metrics, judge=structs.replace(metrics.judge, official=official))


# Results of checks and computations on runs, cached in a file by the content they depend on: for lists and pages.

V = TypeVar("V")


class ScoreCache:
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
