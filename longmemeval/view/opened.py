"""Open runs: read and check them once, and again when one of their files has changed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import TypeVar, cast

from longmemeval.core.caches import SingleFlightCache
from longmemeval.judges.people import PREFIX
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.graded.judge_checks import controls_last
from longmemeval.results.scores.stored import Remembered
from longmemeval.settings import Folders
from longmemeval.view.choice import Choice

Stat = tuple[tuple[str, int, int], ...]
"""Name, modification time and size of each file that a run's figures depend on."""
V = TypeVar("V")
M = TypeVar("M")
Kept = SingleFlightCache[object, tuple[object, V]]
"""Values by key, each with the state of the files it was made from."""
_RUNS, _COMPARISONS = 48, 12
"""The numbers of runs and comparisons kept open; the least recently used are dropped first."""


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
        self._runs: Kept[Evaluation] = SingleFlightCache(_RUNS)
        self._comparisons: Kept[Comparison] = SingleFlightCache(_COMPARISONS)
        self._made: Kept[object] = SingleFlightCache(2 * _COMPARISONS)
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
        cached = [_kept(self._runs, key, (checks, stat)) for key, stat in zip(keys, run_stats, strict=True)]
        missing = [run_id for run_id, run in zip(choice.runs, cached, strict=True) if run is None]
        judge, remembered = choice.judge or None, self._remembered
        loaded = {
            evaluation.id: evaluation
            for evaluation in load_graded(missing, self.folders, judge=judge, remembered=remembered)
        }
        runs = []
        for run_id, key, stat, run in zip(choice.runs, keys, run_stats, cached, strict=True):
            runs.append(run or _keep(self._runs, key, (checks, stat), loaded[run_id]))
        return _in_order(runs)

    def comparison(self, choice: Choice) -> Comparison:
        """Return the comparison of these runs, as made by `longmemeval compare --common`.

        Raises:
            HarnessError: as `load_graded` and `compare_runs`.
        """
        with self._lock:
            stats = self.stats(choice)
            if (cached := _kept(self._comparisons, choice, stats)) is not None:
                return cached
            runs = self._evaluations(choice, stats)
            # On the same data, compare the questions that all runs answered; the comparison notes what is left out.
            common = len({run.manifest.dataset["content_sha256"] for run in runs}) == 1
            comparison = compare_runs(runs, self.folders, common=common, remembered=self._remembered)
            return _keep(self._comparisons, choice, stats, comparison)

    def of(self, comparison: Comparison, make: Callable[[Comparison], M]) -> M:
        """Return the result of a function on a comparison, computed once while the comparison is cached.

        Args:
            comparison: a comparison returned by `comparison`.
            make: a slow, deterministic function; it must be defined in a module, as it is part of the cache key.
        """
        # The entry also keeps the comparison alive, so no other can have its id; it is a result of this very function.
        return cast("M", self._made.get((id(comparison), make), lambda: (comparison, make(comparison)))[1])


def _kept(cache: Kept[V], key: object, stat: object) -> V | None:
    """Return a value if the files it was made from still have the state `stat`, else None."""
    entry = cache.peek(key)
    return entry[1] if entry and entry[0] == stat else None


def _keep(cache: Kept[V], key: object, stat: object, value: V) -> V:
    """Keep a value made from files of the state `stat`, in place of an earlier one."""
    cache.drop(key)
    return cache.get(key, lambda: (stat, value))[1]


def _in_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    return controls_last(runs, lambda run: run.summary.control)
