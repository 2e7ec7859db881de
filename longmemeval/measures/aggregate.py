"""Means of the values of single questions, each with its denominator and its uncertainty."""

from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct

from longmemeval.measures.notation import Measure
from longmemeval.statistics.intervals import IntervalMethod, label_interval
from longmemeval.statistics.resampling import bootstrap_mean, share_haystacks


class QuestionValues(Struct, frozen=True):
    """The values of one question."""

    question_id: str
    question_type: str
    haystack_id: str
    values: Mapping[str, float | None]
    """Values by notation of the measure; None where the measure is undefined."""


class IntervalOptions(Struct, frozen=True):
    """Settings of the intervals."""

    confidence: float = 0.95
    resamples: int = 1000
    """Number of resamples of the bootstrap."""
    seed: int = 0


DEFAULT_INTERVALS = IntervalOptions()


class Mean(Struct, frozen=True):
    """The mean of one measure over a group of questions; fractions between 0 and 1, not rounded."""

    mean: float | None
    """None when no question has a value."""
    n: int
    """Number of questions with a value, which the mean is over."""
    undefined: int
    """Number of questions in the group without a value."""
    interval: tuple[float, float] | None
    """None when too few questions have a value to estimate one."""
    method: IntervalMethod | None
    """Method of the interval."""


class RetrievalSummary(Struct, frozen=True):
    """Means over all questions and over those of each type, by notation of the measure."""

    denominator: str
    """Description such as "419 questions: no abstention, user evidence"."""
    measures: dict[str, Mean]
    by_type: dict[str, dict[str, Mean]]


def aggregate(
    questions: Sequence[QuestionValues],
    measures: Sequence[Measure],
    rule: str,
    *,
    type_order: Sequence[str] = (),
    intervals: IntervalOptions = DEFAULT_INTERVALS,
) -> RetrievalSummary:
    """Average the values of many questions; the order of the questions does not matter.

    Args:
        questions: all questions of the denominator; each has a value, or None, for every measure.
        measures: the measures to average.
        rule: a description of the questions; the summary puts their number before it.
        type_order: question types in the order wanted; others follow alphabetically.
        intervals: settings of the intervals.
    """
    questions = sorted(questions, key=lambda question: (question.haystack_id, question.question_id))
    types = {question.question_type for question in questions}
    ordered = [name for name in type_order if name in types] + sorted(types.difference(type_order))

    def means(group: Sequence[QuestionValues]) -> dict[str, Mean]:
        return {str(measure): _mean(group, measure, intervals) for measure in measures}

    return RetrievalSummary(
        denominator=f"{len(questions):,} {'question' if len(questions) == 1 else 'questions'}: {rule}",
        measures=means(questions),
        by_type={
            name: means([question for question in questions if question.question_type == name]) for name in ordered
        },
    )


def _mean(questions: Sequence[QuestionValues], measure: Measure, options: IntervalOptions) -> Mean:
    scored = [
        (value, question.haystack_id) for question in questions if (value := question.values[str(measure)]) is not None
    ]
    values = [value for value, _ in scored]
    undefined = len(questions) - len(values)
    if not values:
        return Mean(None, 0, undefined, None, None)
    haystacks = [haystack_id for _, haystack_id in scored]
    interval, method = _interval(values, haystacks, measure.kind.binary, options)
    return Mean(fsum(values) / len(values), len(values), undefined, interval, method)


def _interval(
    values: Sequence[float], haystacks: Sequence[str], binary: bool, options: IntervalOptions
) -> tuple[tuple[float, float] | None, IntervalMethod | None]:
    """Return the interval of a mean and its method: that of labels for proportions, else the bootstrap."""
    resamples, seed, confidence = options.resamples, options.seed, options.confidence
    if binary:
        return label_interval(values, haystacks, resamples=resamples, seed=seed, confidence=confidence)
    if len(values) == 1:
        return None, None
    interval = bootstrap_mean(values, haystacks, resamples=resamples, seed=seed, confidence=confidence)
    return interval, "bootstrap over haystacks" if share_haystacks(haystacks) else "bootstrap"
