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
from longmemeval.settings import Folders
from longmemeval.view.choice import Choice

Stat = tuple[tuple[str, int, int], ...]
"""Name, time of change and size of each file that a run's figures depend on."""
V = TypeVar("V")
T = TypeVar("T")
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
        where: the folders.
    """

    def __init__(self, where: Folders) -> None:
        self.where = where
        self._lock = RLock()
        self._runs: Kept[Evaluation] = Kept(_RUNS)
        self._comparisons: Kept[Comparison] = Kept(_COMPARISONS)
        self._made: Kept[object] = Kept(_COMPARISONS)

    def stats(self, choice: Choice) -> tuple[Stat, ...]:
        """Return what the figures of these runs depend on, checks of judges included."""
        results = self.where.results_dir
        checks = [(str(path), path.stat().st_mtime_ns, 0) for path in sorted(results.glob("judge-checks/*"))]
        return (tuple(checks), *(stat_of(results / run) for run in choice.runs))

    def evaluations(self, choice: Choice) -> list[Evaluation]:
        """Return the runs as one judge graded them: the baseline first, controls last.

        Raises:
            HarnessError: as `load_graded`.
        """
        with self._lock:
            checks, *stats = self.stats(choice)
            keys = [(run, choice.judge) for run in choice.runs]
            found = [self._runs.get(key, (checks, stat)) for key, stat in zip(keys, stats, strict=True)]
            missing = [run for run, one in zip(choice.runs, found, strict=True) if one is None]
            loaded = {one.id: one for one in load_graded(missing, self.where, judge=choice.judge or None)}
            runs = []
            for run, key, stat, one in zip(choice.runs, keys, stats, found, strict=True):
                runs.append(one or self._runs.put(key, (checks, stat), loaded[run]))
        return _in_order(runs)

    def comparison(self, choice: Choice) -> Comparison:
        """Return the comparison of these runs, as `longmemeval compare` makes it.

        Raises:
            HarnessError: as `load_graded` and `compare_runs`.
        """
        with self._lock:
            stats = self.stats(choice)
            if (kept := self._comparisons.get(choice, stats)) is not None:
                return kept
            return self._comparisons.put(choice, stats, compare_runs(self.evaluations(choice), self.where))

    def of(self, made_of: T, choice: Choice, make: Callable[[T], M], name: str) -> M:
        """Return what a function makes of opened runs, made once while their files stay as they are.

        Args:
            made_of: the argument of `make`, as opened for this choice.
            choice: the runs.
            make: slow, and the same for the same files.
            name: of what is made; another for each `make`.
        """
        with self._lock:
            stats, key = self.stats(choice), (choice, name)
            kept = self._made.get(key, stats)
            # Under this name is what this very function made.
            return cast("M", kept if kept is not None else self._made.put(key, stats, make(made_of)))


def _in_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    return [runs[place] for place in controls_last([run.summary.control for run in runs])]
