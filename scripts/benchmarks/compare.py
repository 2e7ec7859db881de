"""How long `compare` takes for 20 runs of 500 questions, against a bootstrap of every pair by scipy.

    python scripts/benchmarks/compare.py [--runs 20] [--questions 500] [--scores]

The runs are graded by hand, with labels from a fixed generator, or with --scores with scores that hardly ever repeat,
as an F1 gives them. Timed in this process, libraries loaded: reading the graded runs and comparing all pairs. Held
against it: `scipy.stats.bootstrap` of the paired difference, which draws question by question, as often (10,000 times)
for each pair. It is measured on some pairs and multiplied up; it reads no files and tests nothing.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2]))

from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.settings import Folders
from longmemeval.statistics.resampling import RESAMPLES
from tests.pipeline.graded_runs import F1, STRICT, Credit, graded_run
from tests.pipeline.helpers import colours, folders_in

MEASURED_PAIRS = 5


@dataclass(frozen=True)
class GradedRuns:
    """Folders with graded runs."""

    folders: Folders
    run_ids: list[str]


def make_runs(folder: Path, runs: int, questions: int, *, scores: bool = False) -> GradedRuns:
    dataset, folders = colours(folder / "small.json", questions), folders_in(folder)
    run_ids = [f"run-{number}" for number in range(runs)]
    generator = np.random.default_rng(0)
    for run_id in run_ids:
        credits = drawn(generator, questions, scores=scores)
        graded_run(dataset, folders, run_id, credits, judge=F1 if scores else STRICT)
    return GradedRuns(folders, run_ids)


def drawn(generator: np.random.Generator, questions: int, *, scores: bool) -> list[Credit]:
    if scores:
        return [float(value) for value in generator.random(questions) ** generator.uniform(0.5, 2)]
    return [bool(label) for label in generator.random(questions) < generator.uniform(0.4, 0.7)]


def by_scipy(comparison: Comparison) -> float:
    """Seconds for all pairs, from those that are measured."""
    credits = np.array([[credit or 0.0 for credit in row.credits] for row in comparison.questions])

    def bootstrap(place: int) -> object:
        sample = (credits[:, place] - credits[:, place + 1],)
        return stats.bootstrap(sample, np.mean, n_resamples=RESAMPLES, method="percentile", rng=0)

    number = min(MEASURED_PAIRS, credits.shape[1] - 1)
    measured = [seconds_of(partial(bootstrap, place)) for place in range(number)]
    return statistics.mean(measured) * len(comparison.pairs)


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description="Time compare on many runs.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--scores", action="store_true", help="scores in place of labels")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = make_runs(Path(folder), arguments.runs, arguments.questions, scores=arguments.scores)

        def reading() -> object:
            return load_graded(made.run_ids, made.folders)

        graded = load_graded(made.run_ids, made.folders)
        comparison = compare_runs(graded, made.folders)
        read = min(seconds_of(reading) for _ in range(3))
        compared = min(seconds_of(lambda: compare_runs(graded, made.folders)) for _ in range(3))
    other = by_scipy(comparison)
    print(f"{arguments.runs} runs of {arguments.questions} questions, {len(comparison.pairs)} pairs, fastest of 3\n")
    print(f"reading the runs     {read:8.2f} s")
    print(f"comparing them       {compared:8.2f} s")
    print(f"bootstrap by scipy   {other:8.2f} s, {other / (read + compared):.1f} times as long as both together")


if __name__ == "__main__":
    main()
