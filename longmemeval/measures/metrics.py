"""Accuracies from judgements. Every selected question counts, judged or not."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.question_types import ABILITIES, ANY_TYPES, Labels, OfficialFigures, QuestionTypes
from longmemeval.judges.template_set import is_official, served_as_official
from longmemeval.measures.abstention import Abstaining, Calibration, abstaining, calibrate, declined
from longmemeval.records import Gold, Judgement, Usage, usage_of
from longmemeval.statistics.intervals import label_interval, percentile, score_interval
from longmemeval.statistics.resampling import share_haystacks

METRICS_FORMAT = 4
"""Version, raised whenever the same labels give other figures than before; files before the first version lack it."""


class Score(Struct, frozen=True):
    """The accuracy of a group of questions; fractions between 0 and 1, not rounded."""

    accuracy: float
    """Mean credit: `correct / n` for a judge of labels, the mean score for one of scores (F1); 0 without questions."""
    correct: int
    """Questions with full credit."""
    n: int
    """Number of selected questions in the group."""
    not_evaluated: int
    """Number of questions without a label. They count as wrong."""
    interval: tuple[float, float]
    """95% CI of `accuracy`: Wilson's for labels of independent questions, else the bootstrap, over haystacks
    if questions share them (`statistics/intervals.py`)."""


class Latency(Struct, frozen=True):
    """Percentiles of milliseconds; None if nothing was timed."""

    p50: float | None
    p95: float | None


def latency(milliseconds: Sequence[float]) -> Latency:
    """Return the 50th and the 95th percentile."""
    numbers = array("d", milliseconds)
    return Latency(percentile(numbers, 50), percentile(numbers, 95))


class VoteSpread(Struct, frozen=True):
    """The spread of the votes of a judge that votes several times."""

    votes: int
    unanimous: float
    """Share of the judged questions on which all votes agree."""
    lowest: float
    highest: float
    """Accuracy by a single vote: that of the least and of the most favourable vote."""


class Metrics(Struct, frozen=True):
    """The result of grading one run with one judge: the document printed by `evaluate --json`."""

    run: str
    judge: JudgeIdentity
    """`official` is True here only if, in addition, the server reports the official model for every label."""
    overall: Score
    task_averaged: float | None
    """Mean of the types' accuracies, each type weighing the same; None while a type it needs is missing."""
    by_type: dict[str, Score]
    """Score by question type, in the benchmark's own order, others alphabetically; includes unanswerable questions."""
    abstention: Score | None
    """Score of the unanswerable questions, which count in their types too; None without any."""
    usage: Usage
    """Usage of the judge's calls."""
    latency_ms: Latency
    """Latency of the judge calls that were answered."""
    answerable: Score | None = None
    """Score of the questions that have an answer; None if all or none have one."""
    by_ability: dict[str, Score] = {}
    """Scores by the vocabulary all benchmarks share (`judges/question_types.py`)."""
    by_facet: dict[str, Score] = {}
    """Scores by type and the benchmark's other groupings (`Gold.facets`)."""
    abstaining: Abstaining | None = None
    """Figures of abstention: how often it was right, and how many unanswerable questions were refused."""
    calibration: Calibration | None = None
    """The effect of a threshold on the best recall score; None without scores or unanswerable questions."""
    votes: VoteSpread | None = None
    format: int = 1
    """Version of the rules by which the figures were computed."""
    judgements_sha256: str = ""
    """Hash of the file of judgements that was scored."""
    answered: int = 0
    """Number of questions that had an answer; it grows when a run is resumed."""
    official_figures: OfficialFigures | None = None
    """Figures of the benchmark's own script for the same labels; None without such a script, and for judges that it
    does not accept, which are all but the official one."""
    haystacks: int | None = None
    """Number of haystacks that the questions share, which intervals resample whole; None where each question has its
    own, or all share one: they count as independent then."""

    @property
    def independent_units(self) -> int:
        """The number of units a test counts or flips: the shared haystacks, else the questions."""
        return self.haystacks or self.overall.n


def compute_metrics(
    golds: Sequence[Gold],
    judgements: Mapping[str, Judgement],
    identity: JudgeIdentity,
    *,
    run: str = "",
    haystacks: Mapping[str, str] | None = None,
    hypotheses: Mapping[str, str] | None = None,
    top_scores: Mapping[str, float | None] | None = None,
    times: Mapping[str, int] | None = None,
    types: QuestionTypes = ANY_TYPES,
    pooled: bool = False,
) -> Metrics:
    """Score a run.

    Args:
        golds: gold of all selected questions: the denominator, whatever was answered or judged.
        judgements: by question id; those of other questions are ignored.
        identity: identity of the judge that made them.
        run: id of the run.
        haystacks: question id to haystack id, if questions share haystacks; None: each has its own.
        hypotheses: question id to answer text, for the figures of abstention; None: these are not computed.
        top_scores: question id to the best recall score, for the threshold; None: no threshold is sought.
        times: how often an imported log has a question, if not once; only the official figures use it.
        types: the benchmark's own question types.
        pooled: True if the credits are means over repeats: fractions, and no labels that an official script scores.
    """
    present = [judgements[gold.question_id] for gold in golds if gold.question_id in judgements]
    evaluated = [judgement for judgement in present if judgement.label is not None]
    clusters = {gold.question_id: (haystacks or {}).get(gold.question_id, gold.question_id) for gold in golds}
    scores = _Scorer(present, clusters, labels_only=identity.metric == "accuracy" and not pooled)
    by_type = scores.grouped(golds, lambda gold: gold.question_type, types.order)
    unanswerable = [gold.question_id for gold in golds if gold.abstention]
    answerable = [gold.question_id for gold in golds if not gold.abstention]
    faceted = sorted((g for g in golds if g.facets), key=lambda g: (g.question_type, *g.facets.values()))
    latencies = [
        judgement.latency_ms for judgement in present if judgement.attempts > 0 and judgement.latency_ms is not None
    ]
    official = _is_official(identity, evaluated)
    labels = {judgement.question_id: judgement.label for judgement in evaluated if judgement.label is not None}
    figures = None if pooled else types.official_figures
    return Metrics(
        run=run,
        judge=msgspec.structs.replace(identity, official=official),
        format=METRICS_FORMAT,
        overall=scores.score([*clusters]),
        task_averaged=_task_average(by_type, types),
        by_type=by_type,
        abstention=scores.score(unanswerable) if unanswerable else None,
        usage=usage_of(present),
        latency_ms=latency(latencies),
        answerable=scores.score(answerable) if unanswerable and answerable else None,
        by_ability=scores.grouped(golds, types.ability_of, ABILITIES),
        by_facet=scores.grouped(faceted, _facet, [_facet(gold) for gold in faceted]),
        abstaining=None if hypotheses is None else abstaining(golds, hypotheses, clusters),
        calibration=_calibration(golds, top_scores or {}, scores.credits, hypotheses or {}),
        votes=_vote_spread(present, len(golds)),
        official_figures=figures(Labels(identity, official, golds, labels, times)) if figures and golds else None,
        haystacks=len(set(clusters.values())) if share_haystacks(list(clusters.values())) else None,
    )


def credit(judgement: Judgement | None) -> float | None:
    """Return the credit of an answer, between 0 and 1; None if it was not evaluated."""
    if judgement is None or judgement.label is None:
        return None
    return float(judgement.label) if judgement.score is None else judgement.score


class _Scorer:
    """Scores groups of questions by one judge."""

    def __init__(self, judgements: Sequence[Judgement], haystacks: Mapping[str, str], *, labels_only: bool) -> None:
        self.credits = {judgement.question_id: credit(judgement) for judgement in judgements}
        self._right = {judgement.question_id for judgement in judgements if judgement.label is True}
        self._labels_only = labels_only
        self._haystacks = haystacks

    def score(self, questions: Sequence[str]) -> Score:
        ids = sorted(questions)
        credits = [*map(self.credits.get, ids)]
        values = [value or 0.0 for value in credits]
        correct, n = len(self._right.intersection(ids)), len(ids)
        accuracy = sum(values) / n if n else 0.0
        clusters = [*map(self._haystacks.__getitem__, ids)]
        interval = label_interval(values, clusters)[0] if self._labels_only else score_interval(values, clusters)
        return Score(accuracy, correct, n, credits.count(None), interval)

    def grouped(
        self, golds: Sequence[Gold], group_of: Callable[[Gold], str], order: Sequence[str] = ()
    ) -> dict[str, Score]:
        """Return the score of each group, in `order`; others follow alphabetically."""
        groups: dict[str, list[str]] = {}
        for gold in golds:
            groups.setdefault(group_of(gold), []).append(gold.question_id)
        names = [*(name for name in dict.fromkeys(order) if name in groups), *sorted(groups.keys() - set(order))]
        return {name: self.score(groups[name]) for name in names}


def _facet(gold: Gold) -> str:
    return ", ".join([gold.question_type, *(f"{name} {value}" for name, value in gold.facets.items())])


def _calibration(
    golds: Sequence[Gold],
    top_scores: Mapping[str, float | None],
    credits: Mapping[str, float | None],
    hypotheses: Mapping[str, str],
) -> Calibration | None:
    unanswerable = {gold.question_id: gold.abstention for gold in golds}
    if not any(unanswerable.values()) or all(top_scores.get(question_id) is None for question_id in unanswerable):
        return None
    return calibrate(top_scores, unanswerable, credits, declined(hypotheses) & unanswerable.keys())


def _vote_spread(judgements: Sequence[Judgement], n: int) -> VoteSpread | None:
    """Return the spread of the votes; None for judges that vote once."""
    ballots = [judgement.vote_labels for judgement in judgements if judgement.vote_labels]
    if not ballots:
        return None
    accuracies = [votes.count(True) / n for votes in zip(*ballots, strict=True)]
    unanimous = sum(len(set(ballot)) == 1 for ballot in ballots) / len(ballots)
    return VoteSpread(len(accuracies), unanimous, min(accuracies), max(accuracies))


def _is_official(judge: JudgeIdentity, judgements: Iterable[Judgement]) -> bool:
    """Return whether the identity is official, the server reports the official model, and took what it was sent."""
    graded = list(judgements)
    served = all(served_as_official(judge, model) for model in {judgement.served_model for judgement in graded})
    as_planned = not any(asked.max_tokens or asked.deviations for judgement in graded if (asked := judgement.asked))
    return served and as_planned and judge.official and is_official(judge)


def _task_average(by_type: Mapping[str, Score], types: QuestionTypes) -> float | None:
    """Return the mean over the types; None if a type that the benchmark's mean needs is missing."""
    complete = by_type and by_type.keys() >= types.average_needs
    return sum(score.accuracy for score in by_type.values()) / len(by_type) if complete else None
