"""Definitions of the retrieval measures: names, meanings and sources. `compute` has the arithmetic.

One notation serves everywhere: `recall_any @ 5` in Python, `recall_any@5` on the command line, in result files and as
the `str` of the measure.

In the formulas G is the set of gold ids of a question, R the ranking, R_k its first k items and r a rank, 1 for the
best. A gain g(r) is 1 if rank r brings a gold id that no better rank brought, else 0.
"""

import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Literal

from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.statistics.intervals import IntervalMethod, label_interval
from longmemeval.statistics.resampling import bootstrap_mean, share_haystacks

_CUTOFF = re.compile(r"[1-9][0-9]{0,8}")
_LARGEST_CUTOFF = 10**9 - 1


class Measure(Struct, frozen=True):
    """One measure, ready to compute; equal, and hashed alike, when name and cutoff are.

    Args:
        name: one of `MEASURES`.
        cutoff: how many of the best ranks count, from 1; None for a measure over the whole ranking.

    Raises:
        HarnessError: there is no such measure, or its cutoff is missing, out of range or superfluous.
    """

    name: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        kind = _kind(self.name, str(self))
        fits = 1 <= (self.cutoff or 0) <= _LARGEST_CUTOFF if kind.has_cutoff else self.cutoff is None
        if not fits:
            raise _cutoff_error(kind, str(self))

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Return the measure that `text` denotes, such as `recall_any@5` or `mrr`; the inverse of `str`.

        Raises:
            HarnessError: the text is not a measure; the error names the nearest valid one.
        """
        name, at, cutoff = text.partition("@")
        kind = _kind(name, text)
        if at and not _CUTOFF.fullmatch(cutoff):
            raise _cutoff_error(kind, text)
        return cls(name, int(cutoff) if at else None)

    @property
    def kind(self) -> "MeasureKind":
        """The definition of the measure, regardless of its cutoff."""
        return MEASURES[self.name]

    def __str__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"


class MeasureKind(Struct, frozen=True):
    """A measure before its cutoff is chosen: `recall_any @ 5` makes a `Measure` of it."""

    name: str
    meaning: str
    formula: str
    source: str
    has_cutoff: bool = True
    binary: bool = False
    """True if a question scores 0 or 1 and nothing between: the mean is a proportion."""
    official: bool = False
    """True if the retrieval evaluation of Wu et al. 2025 computes it, and so defines its value without gold."""
    of_changes: bool = False
    """True if it needs to know which messages were overruled (`measures/changes.py`)."""
    lower_is_better: bool = False

    def __matmul__(self, cutoff: int) -> Measure:
        return Measure(self.name, cutoff)

    @property
    def notation(self) -> str:
        """The measure in writing, with `k` for the cutoff."""
        return f"{self.name}@k" if self.has_cutoff else self.name


def _kind(name: str, text: str) -> MeasureKind:
    """Return the measure called `name`, which the user wrote as part of `text`.

    Raises:
        HarnessError: there is no such measure.
    """
    if name not in MEASURES:
        known = [kind.notation for kind in MEASURES.values()]
        raise HarnessError(f"Unknown measure {text!r}", fix=nearest(text.lower(), known))
    return MEASURES[name]


def _cutoff_error(kind: MeasureKind, text: str) -> HarnessError:
    if not kind.has_cutoff:
        return HarnessError(f"The measure {kind.name!r} takes no cutoff", where=repr(text), fix=f"Write {kind.name}")
    what = f"The measure {kind.name!r} needs a cutoff: a whole number from 1 to {_LARGEST_CUTOFF:,}"
    return HarnessError(what, where=repr(text), fix=f"Write {kind.name}@5, or another number")


recall_any = MeasureKind(
    name="recall_any",
    meaning="Whether at least one gold item is among the first k.",
    formula="1 if G ∩ R_k is not empty, else 0",
    source="Wu et al. 2025 (ICLR), src/retrieval/eval_utils.py, evaluate_retrieval",
    binary=True,
    official=True,
)
recall_all = MeasureKind(
    name="recall_all",
    meaning="Whether all gold items are among the first k.",
    formula="1 if G ⊆ R_k, else 0",
    source="Wu et al. 2025 (ICLR), src/retrieval/eval_utils.py, evaluate_retrieval",
    binary=True,
    official=True,
)
recall = MeasureKind(
    name="recall",
    meaning="The share of the gold items that is among the first k.",
    formula="|G ∩ R_k| / |G|",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, sections 8.3 and 8.4",
)
precision = MeasureKind(
    name="precision",
    meaning="The share of the first k that is gold; empty places and repeated items count as not gold.",
    formula="|G ∩ R_k| / k",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, sections 8.3 and 8.4",
)
_reciprocal_rank = MeasureKind(
    name="mrr",
    meaning="One over the rank of the best gold item, 0 when none is ranked; its mean is the mean reciprocal rank.",
    formula="1 / min{r : g(r) = 1}",
    source="Voorhees 1999, The TREC-8 Question Answering Track Report",
    has_cutoff=False,
)
ndcg = MeasureKind(
    name="ndcg",
    meaning="Discounted gain of the first k, as a share of what a ranking with all gold on top would gain.",
    formula="Σ_{r≤k} g(r)/log2(r+1) / Σ_{r≤min(k,|G|)} 1/log2(r+1)",
    source="Järvelin and Kekäläinen 2002 (TOIS 20/4), with the discount 1/log2(r+1) of Burges et al. 2005 (ICML)",
)
ndcg_official = MeasureKind(
    name="ndcg_official",
    meaning="As ndcg, but ranks 1 and 2 weigh the same, and every item with a gold id counts, repeated ids too.",
    formula="DCG(R_k) / DCG(first k of the corpus, gold first), DCG(x) = x_1 + Σ_{r≥2} x_r/log2(r), x_r = 1 if gold",
    source="Wu et al. 2025, src/retrieval/eval_utils.py, ndcg; the discount of Järvelin and Kekäläinen 2002, b = 2",
    official=True,
)
current_recall = MeasureKind(
    name="current_recall",
    meaning="Whether the current message of every step of the answer is among the first k.",
    formula="1 if C ⊆ R_k, else 0; C: the messages that nothing later overrules",
    source="recall_all of the current messages; this project",
    binary=True,
    of_changes=True,
)
current_first = MeasureKind(
    name="current_first",
    meaning="Whether the current messages are among the first k, and no overruled one is above them.",
    formula="1 if C ⊆ R_k and r(c) < r(s) for all s overruled by c, else 0",
    source="this project",
    binary=True,
    of_changes=True,
)
stale_shown = MeasureKind(
    name="stale_shown",
    meaning="Whether an overruled message is among the first k; lower is better.",
    formula="1 if S ∩ R_k is not empty, else 0; S: the overruled messages of the same steps",
    source="this project",
    binary=True,
    of_changes=True,
    lower_is_better=True,
)
_stale_first = MeasureKind(
    name="stale_first",
    meaning="Whether an overruled message is ranked above the current one in its place; lower is better.",
    formula="1 if r(s) < r(c) for some s overruled by c, else 0; what is not ranked is below all that is",
    source="this project",
    has_cutoff=False,
    binary=True,
    of_changes=True,
    lower_is_better=True,
)

MEASURES = {
    kind.name: kind
    for kind in (
        *(recall_any, recall_all, recall, precision, _reciprocal_rank, ndcg, ndcg_official),
        *(current_recall, current_first, stale_shown, _stale_first),
    )
}
"""Every measure there is, by name, in the order of a table."""

mrr, stale_first = Measure("mrr"), Measure("stale_first")


# Means of the values of single questions, each with its denominator and its uncertainty.


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


# Rankings of a history and their scores: the records that `retrieval` stores.

Granularity = Literal["session", "turn"]
RetrievalProtocol = Literal["standard", "official"]
Difference = Literal["ids", "order", "text", "error"]
"""Difference between two recalls for one question: other items, another order, another text, or one of them failed."""


class Ranked(Struct, frozen=True, gc=False):
    """One item of a ranking."""

    id: str
    """Message id of a turn, thread id of a session; under an official protocol with its own corpus the id there."""
    score: float | None
    """None for an item that was recalled without being ranked."""


class Ranking(Struct, frozen=True, omit_defaults=True):
    """One line of `rankings.jsonl`, best item first."""

    question_id: str
    level: Granularity
    ranked: tuple[Ranked, ...]
    unknown: bool = False
    """True if the memory gives no provenance on this level: no measure has a value."""
    error: str = ""
    """Reason why the recall failed. It counts as having found nothing."""
    second: tuple[Difference, ...] | None = None
    """Differences when the same question was recalled a second time; None if it was recalled once."""


class RetrievalResult(Struct, frozen=True, rename={"gold_rule": "gold"}):
    """The scores of one memory against one kind of gold over one denominator."""

    memory: str
    protocol: RetrievalProtocol
    granularity: str
    """`session` or `turn`; `turn2session` for an official ranking of turns that is scored as sessions."""
    gold_rule: str
    """Description of what counted as right."""
    denominator: str
    """Description of what the means are over."""
    measures: dict[str, Mean]
    by_type: dict[str, dict[str, Mean]]
    without_labels: tuple[str, ...] = ()
    """Official protocol: ids of the questions in the denominator whose evidence turns are not labelled."""
    notes: tuple[str, ...] = ()
    """Notes on the memory to print under a table."""
