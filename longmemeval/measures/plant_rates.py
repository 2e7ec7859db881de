"""Error rates of a judge on plants: the share of wrong ones that it passes and of right ones that it fails, by kind."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, variance

from msgspec import Struct

from longmemeval.judges.plants.planting import NO_ANSWERS, Plant
from longmemeval.measures.metrics import credit
from longmemeval.records import Judgement
from longmemeval.statistics.intervals import label_interval, score_interval
from longmemeval.statistics.misclassification import MeasuredRates, PlantCredit


class Rate(Struct, frozen=True):
    """The mean credit that a judge gives to a group of plants."""

    n: int
    """Number of plants that have a label."""
    unlabelled: int
    """Number of plants that the judge gave no label: they count nowhere."""
    credit: float | None
    """Mean credit between 0 and 1; for a judge of labels the share passed. None without a labelled plant."""
    interval: tuple[float, float]
    """95% CI: Wilson's for labels, the bootstrap for scores; over questions if several plants share one."""
    deviation: float
    """Standard deviation of the credits."""


class JudgeRates(Struct, frozen=True):
    """The rates of one judge on the plants of one dataset."""

    right: Rate
    """Rate of right plants of the question types that have right and wrong ones; 1 - credit is the
    false-negative rate."""
    wrong: Rate
    """Rate of wrong plants of the same types that are an answer at all; its credit is the false-positive rate."""
    none: Rate
    """Rate of the plants that are no answer at all."""
    by_kind: dict[str, Rate]
    by_type: dict[str, tuple[Rate, Rate]]
    """Rates of right and of wrong plants by question type."""
    at_hand: tuple[Rate, Rate] | None = None
    """Rates of right and wrong answers labelled by hand with which rules were made: better than on others."""
    planted: tuple[Rate, Rate] | None = None
    """Rates of right and wrong plants if answers labelled by hand are there, which all other rates are then of."""


def judge_rates(plants: Sequence[Plant], judgements: Mapping[str, Judgement]) -> JudgeRates:
    """Return the rates over judged plants.

    Args:
        judgements: judgements by plant id.
    """
    credits = {plant.plant_id: credit(judgements.get(plant.plant_id)) for plant in plants}

    def rate(chosen: Iterable[Plant]) -> Rate:
        return _rate([(plant.question_id, credits[plant.plant_id]) for plant in chosen])

    def both(chosen: Sequence[Plant]) -> tuple[Rate, Rate]:
        answers = [plant for plant in chosen if plant.kind not in NO_ANSWERS]
        return rate(plant for plant in answers if plant.right), rate(plant for plant in answers if not plant.right)

    by_type: dict[str, list[Plant]] = {}
    by_kind: dict[str, list[Plant]] = {}
    counting = _counting(plants)
    for plant in counting:
        by_type.setdefault(plant.question_type, []).append(plant)
    for plant in plants:
        if plant.judged != "at hand":
            by_kind.setdefault(plant.kind, []).append(plant)
    right, wrong = both(_answers_of_both_kinds(counting))
    at_hand, made = ([plant for plant in plants if plant.judged == how] for how in ("at hand", ""))
    return JudgeRates(
        right=right,
        wrong=wrong,
        none=rate(plant for plant in plants if plant.kind in NO_ANSWERS),
        by_kind={kind: rate(group) for kind, group in by_kind.items()},
        by_type={name: both(group) for name, group in by_type.items()},
        at_hand=both(at_hand) if at_hand else None,
        planted=both(made) if len(made) < len(plants) else None,
    )


def measured_rates(
    plants: Sequence[Plant], judgements: Mapping[str, Judgement], *, judged: bool = False
) -> MeasuredRates | None:
    """Return the rates by which scores are corrected: those of right and wrong plants, as in `JudgeRates`.

    Args:
        judgements: judgements by plant id. Plants without a label count nowhere, since scores correct only labels.
        judged: True if only answers labelled by hand correct scores.

    Returns:
        None if no right plant, or no wrong one, has a label.
    """
    plants = _counting(plants)
    if judged and not any(plant.judged for plant in plants):
        return None
    credits = [
        PlantCredit(plant.question_id, plant.right, value)
        for plant in _answers_of_both_kinds(plants)
        if (value := credit(judgements.get(plant.plant_id))) is not None
    ]
    return MeasuredRates(credits) if len({plant_credit.right for plant_credit in credits}) == 2 else None


def _counting(plants: Sequence[Plant]) -> Sequence[Plant]:
    """Return the plants that rates are of: answers labelled by hand that are held out, if there are any."""
    return [plant for plant in plants if plant.judged == "held out"] or [plant for plant in plants if not plant.judged]


def _answers_of_both_kinds(plants: Sequence[Plant]) -> list[Plant]:
    """Return the answers among plants, of question types that have right and wrong ones.

    A type that has plants of one direction alone would weigh in one rate and not in the other.
    """
    answers = [plant for plant in plants if plant.kind not in NO_ANSWERS]
    known = {(plant.question_type, plant.right) for plant in answers}
    return [plant for plant in answers if (plant.question_type, not plant.right) in known]


def _rate(plants: Sequence[tuple[str, float | None]]) -> Rate:
    """Return the rate of plants, given as pairs of question id and credit."""
    labelled = sorted((question, value) for question, value in plants if value is not None)
    unlabelled = len(plants) - len(labelled)
    if not labelled:
        return Rate(0, unlabelled, None, (0.0, 1.0), 0.0)
    questions, values = [question for question, _ in labelled], [value for _, value in labelled]
    mean, deviation = fmean(values), sqrt(variance(values)) if len(values) > 1 else 0.0
    labels = set(values) <= {0.0, 1.0}
    interval = label_interval(values, questions)[0] if labels else score_interval(values, questions)
    return Rate(len(values), unlabelled, mean, interval, deviation)
