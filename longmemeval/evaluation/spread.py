"""The spread of repeated runs of one configuration."""

from collections.abc import Sequence
from statistics import fmean, stdev

from msgspec import Struct


class Spread(Struct, frozen=True):
    """Accuracies of repeated runs; fractions between 0 and 1, not rounded."""

    mean: float
    sd: float | None
    """Standard deviation between the runs, with n - 1; None for one run."""
    lowest: float
    highest: float
    n: int
    """Runs."""


def repeat_spread(accuracies: Sequence[float]) -> Spread:
    """Summarise repeated runs over the same questions.

    Args:
        accuracies: one per run, at least one, in any order.
    """
    ordered = sorted(accuracies)
    sd = stdev(ordered) if len(ordered) > 1 else None
    return Spread(fmean(ordered), sd, ordered[0], ordered[-1], len(ordered))
