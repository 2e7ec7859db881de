"""Compute the smallest difference that the questions of a comparison can show, for each pair and for planning."""

from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from typing import TYPE_CHECKING

from longmemeval.statistics.power import (
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    design_effect,
    independent_units,
    minimum_detectable_difference,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def planned_difference(haystacks: Mapping[str, str], *, labels: bool) -> float | None:
    """Return the difference that the questions can show between runs yet to be made; None if they can show none."""
    clusters = list(haystacks.values())
    if can_show_nothing(clusters):
        return None
    return _detectable(clusters, DISCORDANT, assumed_design_effect(clusters), labels=labels)


def detectable_difference(differences: "NDArray[np.float64]", clusters: Sequence[str], *, labels: bool) -> float | None:
    """Return the smallest difference between two runs that the questions can show, given how far these runs differ.

    Args:
        differences: differences of their scores, one per question.
        clusters: haystack id of each question.
        labels: True if scores are 0 or 1.

    Returns:
        None if the questions can show nothing, or if the runs score alike on every question, which says nothing.
    """
    squared = fsum((differences * differences).tolist())
    if can_show_nothing(clusters) or not squared:
        return None
    effect = design_effect([differences.tolist()], clusters)
    return _detectable(clusters, squared / len(differences), effect, labels=labels)


def _detectable(clusters: Sequence[str], squared: float, effect: float, *, labels: bool) -> float:
    """Return the detectable difference for a mean squared difference.

    For labels, that is the share of discordant questions, as in McNemar's test: runs cannot differ by more than the
    share of questions they disagree on. Mean scores can differ by more than their mean squared difference, so they use
    the same approximation without that bound.
    """
    units = independent_units(clusters)
    shared = units if units < len(clusters) else None
    discordant, scale = (squared, 1.0) if labels else (1.0, sqrt(squared))
    unscaled = minimum_detectable_difference(
        len(clusters), discordant=discordant, design_effect=effect, haystacks=shared
    )
    return unscaled * scale
