"""What can be told from noise with so many questions: said before a run is paid for."""

from longmemeval.evaluation.paired import DISCORDANT, minimum_detectable_difference


def detectable_note(n: int) -> str:
    """One sentence on the smallest difference that `n` questions can show.

    Args:
        n: questions that will be answered.
    """
    points = minimum_detectable_difference(n) * 100
    return (
        f"With {n:,} question{'' if n == 1 else 's'} a difference below {points:.0f} points cannot be told from noise "
        f"(80 % power, where two runs part on {DISCORDANT * 100:.0f} % of the questions)."
    )
