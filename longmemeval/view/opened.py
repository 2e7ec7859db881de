"""Open runs: read and check them once, and again when one of their files has changed."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Generic, TypeVar, cast

from longmemeval.judges.people import PREFIX
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.results.graded.controls import controls_last
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.scores.remembered import Remembered
from longmemeval.settings import Folders
from longmemeval.view.choice import Choice

Stat = tuple[tuple[str, int, int], ...]
"""Name, modification time and size of each file that a run's figures depend on."""
V = TypeVar("V")
M = TypeVar("M")
_RUNS, _COMPARISONS = 48, 12
"""The numbers of runs and comparisons kept open; the least recently used are dropped first."""


class Kept(Generic[V]):
    """A cache of values by key, each valid until the files it was made from change.

    Args:
        size: the most values to keep.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[object, tuple[object, V]] = OrderedDict()

    def get(self, key: object, stat: object) -> V | None:
        """Return the value if the files it was made from still have the state `stat`, else None."""
        entry = self._values.get(key)
        if entry is None or entry[0] != stat:
            return None
        self._values.move_to_end(key)
        return entry[1]

    def put(self, key: object, stat: object, value: V) -> V:
        """Store a value, and drop the least recently used ones if there are too many."""
        self._values[key] = (stat, value)
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
        return value


def stat_of(folder: Path) -> Stat:
    """Return the state of a run's files, which changes with the run or its judgements; empty if there is no folder."""
    stats = []
    for path in (*folder.glob("*.json*"), *folder.glob("judgements/*"), *folder.glob("metrics/*")):
        if path.name.startswith(PREFIX):  # Labels of people change no score; pages read them anew.
            continue
        try:
            stat = path.stat()
        except OSError:  # Removed since it was listed.
            continue
        stats.append((str(path.relative_to(folder)), stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(stats))


class OpenRuns:
    """The graded runs and comparisons behind the pages; safe for several requests at once."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._lock = RLock()
        self._runs: Kept[Evaluation] = Kept(_RUNS)
        self._comparisons: Kept[Comparison] = Kept(_COMPARISONS)
        self._made: Kept[tuple[Comparison, object]] = Kept(2 * _COMPARISONS)
        self._remembered = Remembered.among(folders)

    def stats(self, choice: Choice) -> tuple[Stat, ...]:
        """Return the state of all files that the figures of these runs depend on, including checks of judges."""
        results = self.folders.results_dir
        checks = [(str(path), path.stat().st_mtime_ns, 0) for path in sorted(results.glob("judge-checks/*"))]
        return (tuple(checks), *(stat_of(results / run) for run in choice.runs))

    def evaluations(self, choice: Choice) -> list[Evaluation]:
        """Return the runs as graded by one judge: the baseline first, controls last.

        Raises:
            HarnessError: as `load_graded`.
        """
        with self._lock:
            return self._evaluations(choice, self.stats(choice))

    def _evaluations(self, choice: Choice, stats: tuple[Stat, ...]) -> list[Evaluation]:
        checks, *run_stats = stats
        keys = [(run, choice.judge) for run in choice.runs]
        cached = [self._runs.get(key, (checks, stat)) for key, stat in zip(keys, run_stats, strict=True)]
        missing = [run_id for run_id, run in zip(choice.runs, cached, strict=True) if run is None]
        judge, remembered = choice.judge or None, self._remembered
        loaded = {
            evaluation.id: evaluation
            for evaluation in load_graded(missing, self.folders, judge=judge, remembered=remembered)
        }
        runs = []
        for run_id, key, stat, run in zip(choice.runs, keys, run_stats, cached, strict=True):
            runs.append(run or self._runs.put(key, (checks, stat), loaded[run_id]))
        return _in_order(runs)

    def comparison(self, choice: Choice) -> Comparison:
        """Return the comparison of these runs, as made by `longmemeval compare --common`.

        Raises:
            HarnessError: as `load_graded` and `compare_runs`.
        """
        with self._lock:
            stats = self.stats(choice)
            if (cached := self._comparisons.get(choice, stats)) is not None:
                return cached
            runs = self._evaluations(choice, stats)
            # On the same data, compare the questions that all runs answered; the comparison notes what is left out.
            common = len({run.manifest.dataset["content_sha256"] for run in runs}) == 1
            comparison = compare_runs(runs, self.folders, common=common, remembered=self._remembered)
            return self._comparisons.put(choice, stats, comparison)

    def of(self, comparison: Comparison, make: Callable[[Comparison], M]) -> M:
        """Return the result of a function on a comparison, computed once while the comparison is cached.

        Args:
            comparison: a comparison returned by `comparison`.
            make: a slow, deterministic function; it must be defined in a module, as it is part of the cache key.
        """
        key = (id(comparison), make)
        with self._lock:
            # The entry also keeps the comparison alive, so no other can have its id.
            entry = self._made.get(key, None)
        if entry is None:
            computed = (comparison, make(comparison))  # Outside the lock: another request may compute it too.
            with self._lock:
                entry = self._made.put(key, None, computed)
        # The entry under this key is a result of this very function.
        return cast("M", entry[1])


def _in_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    return controls_last(runs, lambda run: run.summary.control)
