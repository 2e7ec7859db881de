"""Rank runs; those whose order may be chance share their places."""

from collections.abc import Callable, Sequence
from itertools import combinations

from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.statistics.paired import compare_pairs, holm
from longmemeval.statistics.power import ALPHA

Rank = tuple[int, int]
"""The first and the last place that a run may have: `(2, 4)` is one of three that share places 2 to 4."""


def ranks(order: int, better: Callable[[int, int], bool]) -> list[Rank]:
    """Return the places of things sorted by score.

    A line is drawn between two neighbours if everything above is better than everything below. What stands between
    two lines shares its places.

    Args:
        order: how many there are, the best first.
        better: whether the first is better than the second, beyond the noise.
    """
    found: list[Rank] = []
    begin = 0
    for end in range(1, order + 1):
        if end == order or all(better(above, below) for above in range(end) for below in range(end, order)):
            found += [(begin + 1, end)] * (end - begin)
            begin = end
    return found


def ranked(graded: Sequence[Evaluation]) -> tuple[list[Evaluation], list[Rank]]:
    """Return runs by one judge on the same data, the best first, with their places.

    Two runs over the same questions are separated by the paired test, adjusted for the number of pairs (Holm 1979),
    two over different questions by intervals that do not overlap.
    """
    runs = sorted(graded, key=lambda run: (-run.metrics.overall.accuracy, run.manifest.run_id))
    question_ids = [frozenset(run.asked.questions) for run in runs]
    same = [(a, b) for a, b in combinations(range(len(runs)), 2) if question_ids[a] == question_ids[b]]
    credits = [run.credits for run in runs]
    p_values = holm([compare_pairs(credits[a], credits[b], runs[a].haystacks).p for a, b in same])
    p_of = dict(zip(same, p_values, strict=True))

    def better(above: int, below: int) -> bool:
        if (above, below) in p_of:
            return p_of[above, below] < ALPHA
        return runs[above].metrics.overall.interval[0] > runs[below].metrics.overall.interval[1]

    return runs, ranks(len(runs), better)
