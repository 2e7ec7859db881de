"""Compute the smallest difference that the questions of a comparison can show, for each pair and for planning."""

from collections.abc import Mapping, Sequence
from math import fsum, sqrt

from longmemeval.statistics.power import (
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    design_effect,
    independent_units,
    minimum_detectable_difference,
)

Credits = Mapping[str, float | None]


def planned_difference(haystacks: Mapping[str, str], *, labels: bool) -> float | None:
    """Return the difference that the questions show for runs not known yet; None if they can show none."""
    clusters = list(haystacks.values())
    if can_show_nothing(clusters):
        return None
    return _detectable(clusters, DISCORDANT, assumed_design_effect(clusters), labels=labels)


def detectable_difference(a: Credits, b: Credits, haystacks: Mapping[str, str], *, labels: bool) -> float | None:
    """Return the smallest difference of two runs that the questions can show, by how far these runs differ.

    None if the questions can show nothing, or the runs score alike on each, which tells nothing.
    """
    clusters = list(haystacks.values())
    differences = [(a[name] or 0.0) - (b[name] or 0.0) for name in haystacks]
    squared = fsum(difference * difference for difference in differences)
    if can_show_nothing(clusters) or not squared:
        return None
    effect = design_effect([differences], clusters)
    return _detectable(clusters, squared / len(differences), effect, labels=labels)


def _detectable(clusters: Sequence[str], squared: float, effect: float, *, labels: bool) -> float:
    """Return the detectable difference for a mean squared difference: of labels, the share of discordant questions.

    For labels, McNemar's: runs cannot differ by more than the share of questions they disagree on. Mean scores can
    differ by more than their mean squared difference, so for them it is the same approximation without that bound.
    """
    units = independent_units(clusters)
    shared = units if units < len(clusters) else None
    discordant, scale = (squared, 1.0) if labels else (1.0, sqrt(squared))
    found = minimum_detectable_difference(len(clusters), discordant=discordant, design_effect=effect, haystacks=shared)
    return found * scale
