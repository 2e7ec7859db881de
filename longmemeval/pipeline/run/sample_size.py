"""Compute how many questions tell a difference of two runs from noise, and their cost."""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

from longmemeval.benchmarks.catalogue import units_of
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from longmemeval.pipeline.run.estimate import RunEstimate
from longmemeval.records import Question
from longmemeval.results.selection import Selection, stratified_order
from longmemeval.statistics.power import (
    ALPHA,
    CORRELATION,
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    independent_units,
    minimum_detectable_difference,
)
from longmemeval.statistics.resampling import share_haystacks, smallest_p

_MOST_QUESTIONS = 10_000_000


class Amount(Struct, frozen=True):
    """A number of questions, and the cost of one run over them; None means unknown."""

    questions: int
    points: float
    """The smallest difference that they show with 80% power."""
    dollars: tuple[float, float] | None = None
    """Dollars from expected replies to replies of maximum length, including grading."""
    seconds: float | None = None


class SampleSize(Struct, frozen=True):
    """The numbers of questions that are needed, available and affordable."""

    points: float
    """The difference to be told from noise, in points of accuracy."""
    needed: Amount | None
    """The needed questions; None: more than ten million."""
    available: Amount
    """All questions of the data."""
    affordable: Amount | None
    """The questions that the money pays for in each of two runs; None: no limit is given, or the price is unknown."""
    assumptions: tuple[str, ...]


def sample_size(
    dataset: Dataset, points: float, estimate: RunEstimate, seed: int = 0, max_cost: float | None = None
) -> SampleSize:
    """Return how many questions two runs must answer so that a difference of `points` shows with 80% power.

    Args:
        dataset: the data; the questions are those that `--sample N` draws.
        points: the difference, in points of accuracy (0 to 100, both excluded).
        estimate: a run over any part of the data; its calls, dollars and time are scaled by the questions left.
        seed: seed of the sample.
        max_cost: dollars for both runs together.
    """
    haystacks = units_of(dataset, dataset.questions())
    order = stratified_order({name: dataset.question_type(name) for name in haystacks}, seed)
    sample = _Sample([haystacks[name] for name in order])
    needed = sample.least(points)
    affordable = None
    per_question = _dollars(estimate, 1)
    if max_cost is not None and per_question and per_question[1]:
        paid = min(len(order), int(max_cost / 2 / per_question[1]))
        affordable = _amount(paid, sample, estimate)
    return SampleSize(
        points=points,
        needed=None if needed is None else _amount(needed, sample, estimate),
        available=_amount(len(order), sample, estimate),
        affordable=affordable,
        assumptions=tuple(_assumptions(sample)),
    )


class _Sample:
    """Nested samples of the data; beyond its size, more data of its kind.

    Args:
        haystacks: the haystack id of each question, in the order of sampling.
    """

    def __init__(self, haystacks: Sequence[str]) -> None:
        self.haystacks = haystacks
        self.shared = share_haystacks(haystacks)
        self._effect = assumed_design_effect(haystacks)
        self._units = independent_units(haystacks)

    def points(self, n: int) -> float:
        """Return the smallest difference that `n` questions show, in points; 100 if they show none."""
        if n <= len(self.haystacks):
            chosen = self.haystacks[:n]
            if n == 0 or can_show_nothing(chosen):
                return 100.0
            shared = independent_units(chosen) if share_haystacks(chosen) else None
            return 100 * minimum_detectable_difference(n, design_effect=assumed_design_effect(chosen), haystacks=shared)
        units = round(self._units * n / len(self.haystacks)) if self.shared else None
        if smallest_p(units or n) >= ALPHA:
            return 100.0
        return 100 * minimum_detectable_difference(n, design_effect=self._effect, haystacks=units)

    def least(self, points: float) -> int | None:
        """Return the fewest questions that show a difference of `points`; None if ten million do not."""
        most = _MOST_QUESTIONS
        if self.points(most) > points:
            return None
        return bisect_left(range(most), -points, lo=1, key=lambda n: -self.points(n))


def _amount(questions: int, sample: _Sample, estimate: RunEstimate) -> Amount:
    seconds = [stage.seconds for stage in estimate.stages]
    known = [value for value in seconds if value is not None]
    share = questions / estimate.left if estimate.left else 0.0
    return Amount(
        questions=questions,
        points=sample.points(questions),
        dollars=_dollars(estimate, questions),
        seconds=sum(known) * share if estimate.left and len(known) == len(seconds) else None,
    )


def _dollars(estimate: RunEstimate, questions: int) -> tuple[float, float] | None:
    ranges = [(stage.dollars, stage.work.dollars) for stage in estimate.stages]
    known = [(low, high) for low, high in ranges if low is not None and high is not None]
    if not estimate.left or len(known) < len(ranges):
        return None
    share = questions / estimate.left
    return sum(low for low, _ in known) * share, sum(high for _, high in known) * share


def _assumptions(sample: _Sample) -> list[str]:
    """Return the assumptions behind the figures."""
    lines = [
        "both runs answer the same questions (paired); over different questions they need about "
        f"{2 * 0.25 / DISCORDANT:.1f} times as many",
        f"the two runs agree on {100 * (1 - DISCORDANT):.0f}% of the questions; runs that agree on more need fewer",
        "80% power: of five true differences of that size one is missed; two-sided test at 5%",
    ]
    if sample.shared:
        haystacks = len(set(sample.haystacks))
        lines.append(
            f"{len(sample.haystacks):,} questions share {haystacks:,} haystacks; within one, what a run earns "
            f"more than the other correlates by {CORRELATION:g}"
        )
    else:
        lines.append("each question has its own haystack")
    return lines


# Estimate the smallest difference that the chosen questions can show, before a run is paid for.


def planning_note(dataset: Dataset, questions: Sequence[Question], selection: Selection) -> str:
    """Return `power_note` of a run; empty for a shard, which is not compared alone."""
    return "" if selection.shard else power_note(list(units_of(dataset, questions).values()))


def power_note(haystacks: Sequence[str]) -> str:
    """Return the difference that these questions show with 80% power, and the assumptions about the runs to come.

    Args:
        haystacks: the haystack id of each question that will be answered.
    """
    n, units = len(haystacks), independent_units(haystacks)
    questions = count_of(n, "question")
    shared = f" over {count_of(units, 'haystack')}" if units < n else ""
    if can_show_nothing(haystacks):
        return (
            f"{questions}{shared} {'is' if n == 1 else 'are'} too few for a significant difference (smallest possible "
            f"p = {smallest_p(units):.2g}); use at least six {'haystacks' if shared else 'questions'}."
        )
    effect = assumed_design_effect(haystacks)
    points = minimum_detectable_difference(n, design_effect=effect, haystacks=units if shared else None) * 100
    correlation = f" and questions on one haystack correlate by {CORRELATION:g}" if shared else ""
    return (
        f"Planning: {questions}{shared} give 80% power to detect {points:.1f} points, assuming that two runs disagree "
        f"on {DISCORDANT * 100:.0f}% of the questions{correlation}. If they disagree on fewer, smaller differences are "
        "detectable; `compare` computes this for each pair."
    )
