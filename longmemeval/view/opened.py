"""Runs that have been opened: read and checked once, and again when a file of theirs has changed."""

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
"""Name, time of change and size of each file that a run's figures depend on."""
V = TypeVar("V")
M = TypeVar("M")
_RUNS, _COMPARISONS = 48, 12
"""How many are kept; who has not been looked at longest goes first."""


class Kept(Generic[V]):
    """Values by key, each as long as the files it was made of stay as they are.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[object, tuple[object, V]] = OrderedDict()

    def get(self, key: object, stat: object) -> V | None:
        """Return the value, if it was made of files that still look like `stat`."""
        found = self._values.get(key)
        if found is None or found[0] != stat:
            return None
        self._values.move_to_end(key)
        return found[1]

    def put(self, key: object, stat: object, value: V) -> V:
        """Keep a value, and let go of the one that was not looked at longest."""
        self._values[key] = (stat, value)
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
        return value


def stat_of(folder: Path) -> Stat:
    """Return what tells whether a run, or its judgements, have changed; empty where there is no such folder."""
    found = []
    for path in (*folder.glob("*.json*"), *folder.glob("judgements/*"), *folder.glob("metrics/*")):
        if path.name.startswith(PREFIX):  # Labels of people change no score; pages read them anew.
            continue
        try:
            stat = path.stat()
        except OSError:  # Gone since it was listed.
            continue
        found.append((str(path.relative_to(folder)), stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(found))


class OpenRuns:
    """The graded runs and comparisons that pages are made of; used by several requests at once.

    Args:
        folders: the folders.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._lock = RLock()
        self._runs: Kept[Evaluation] = Kept(_RUNS)
        self._comparisons: Kept[Comparison] = Kept(_COMPARISONS)
        self._made: Kept[tuple[Comparison, object]] = Kept(2 * _COMPARISONS)
        self._remembered = Remembered.among(folders)

    def stats(self, choice: Choice) -> tuple[Stat, ...]:
        """Return what the figures of these runs depend on, checks of judges included."""
        results = self.folders.results_dir
        checks = [(str(path), path.stat().st_mtime_ns, 0) for path in sorted(results.glob("judge-checks/*"))]
        return (tuple(checks), *(stat_of(results / run) for run in choice.runs))

    def evaluations(self, choice: Choice) -> list[Evaluation]:
        """Return the runs as one judge graded them: the baseline first, controls last.

        Raises:
            HarnessError: as `load_graded`.
        """
        with self._lock:
            return self._evaluations(choice, self.stats(choice))

    def _evaluations(self, choice: Choice, stats: tuple[Stat, ...]) -> list[Evaluation]:
        checks, *of_runs = stats
        keys = [(run, choice.judge) for run in choice.runs]
        found = [self._runs.get(key, (checks, stat)) for key, stat in zip(keys, of_runs, strict=True)]
        missing = [run for run, one in zip(choice.runs, found, strict=True) if one is None]
        judge, remembered = choice.judge or None, self._remembered
        loaded = {one.id: one for one in load_graded(missing, self.folders, judge=judge, remembered=remembered)}
        runs = []
        for run, key, stat, one in zip(choice.runs, keys, of_runs, found, strict=True):
            runs.append(one or self._runs.put(key, (checks, stat), loaded[run]))
        return _in_order(runs)

    def comparison(self, choice: Choice) -> Comparison:
        """Return the comparison of these runs, as `longmemeval compare --common` makes it.

        Raises:
            HarnessError: as `load_graded` and `compare_runs`.
        """
        with self._lock:
            stats = self.stats(choice)
            if (kept := self._comparisons.get(choice, stats)) is not None:
                return kept
            runs = self._evaluations(choice, stats)
            # Of the same data, those that all runs answered; what is left out, the comparison says.
            common = len({run.manifest.dataset["content_sha256"] for run in runs}) == 1
            found = compare_runs(runs, self.folders, common=common, remembered=self._remembered)
            return self._comparisons.put(choice, stats, found)

    def of(self, comparison: Comparison, make: Callable[[Comparison], M]) -> M:
        """Return what a function makes of a comparison, made once while that is kept.

        Args:
            comparison: as it was opened.
            make: slow, and the same for the same comparison; a function of a module, by which it is known.
        """
        key = (id(comparison), make)
        with self._lock:
            # The comparison is kept beside it: no other can have its id.
            kept = self._made.get(key, None)
        if kept is None:
            made = (comparison, make(comparison))  # Nobody waits for it: who asks for the same now makes it too.
            with self._lock:
                kept = self._made.put(key, None, made)
        # Under this key is what this very function made.
        return cast("M", kept[1])


def _in_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    return controls_last(runs, lambda run: run.summary.control)
