"""Estimate the smallest difference that the chosen questions can show, before a run is paid for."""

from collections.abc import Sequence

from longmemeval.benchmarks.catalogue import units_of
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from longmemeval.records import Question
from longmemeval.results.selection import Selection
from longmemeval.statistics.power import (
    CORRELATION,
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    independent_units,
    minimum_detectable_difference,
)
from longmemeval.statistics.resampling import smallest_p


def planning_note(dataset: Dataset, questions: Sequence[Question], selection: Selection) -> str:
    """Return `power_note` of a run; empty for a shard, which is not compared alone."""
    return "" if selection.shard else power_note(list(units_of(dataset, questions).values()))


def power_note(haystacks: Sequence[str]) -> str:
    """Return the difference that these questions show with 80 % power, and the assumptions about the runs to come.

    Args:
        haystacks: the haystack id of each question that will be answered.
    """
    n, units = len(haystacks), independent_units(haystacks)
    questions = count_of(n, "question")
    shared = f" over {count_of(units, 'haystack')}" if units < n else ""
    if can_show_nothing(haystacks):
        return (
            f"{questions}{shared} {'is' if n == 1 else 'are'} too few to show any difference (smallest possible p = "
            f"{smallest_p(units):.2g}); use at least six {'haystacks' if shared else 'questions'}."
        )
    effect = assumed_design_effect(haystacks)
    points = minimum_detectable_difference(n, design_effect=effect, haystacks=units if shared else None) * 100
    correlation = f" and questions on one haystack correlate by {CORRELATION:g}" if shared else ""
    return (
        f"For planning: {questions}{shared} have 80 % power to show a difference of {points:.1f} points between two "
        f"runs, assuming that they disagree on {DISCORDANT * 100:.0f} % of the questions{correlation}. Runs that "
        "disagree on fewer can show smaller differences; `compare` works it out for each pair."
    )
