"""What can be told from noise with so many questions: said before a run is paid for."""

from collections.abc import Sequence

from longmemeval.evaluation.statistics.power import (
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    independent_units,
    minimum_detectable_difference,
)
from longmemeval.evaluation.statistics.resampling import smallest_p
from longmemeval.text.plural import count_of


def detectable_note(haystacks: Sequence[str]) -> str:
    """One sentence on the smallest difference that the chosen questions can show.

    Args:
        haystacks: the haystack id of each question that will be answered.
    """
    n, units = len(haystacks), independent_units(haystacks)
    questions = count_of(n, "question")
    shared = f" over {count_of(units, 'haystack')}" if units < n else ""
    if can_show_nothing(haystacks):
        return (
            f"With {questions}{shared} no difference can be shown: even of runs that differ everywhere p is not below "
            f"{smallest_p(units):.2g}. It takes six {'haystacks' if shared else 'questions'} at least."
        )
    effect = assumed_design_effect(haystacks)
    points = minimum_detectable_difference(n, design_effect=effect, haystacks=units if shared else None) * 100
    return (
        f"With {questions}{shared} a difference below {points:.0f} points cannot be told from noise "
        f"(80 % power, where two runs part on {DISCORDANT * 100:.0f} % of the questions)."
    )
