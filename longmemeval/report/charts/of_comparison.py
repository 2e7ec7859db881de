"""Choose the charts of a comparison, and gather the figures for them."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from msgspec import structs

from longmemeval.core.text.figures import count, in_dollars, milliseconds, percent
from longmemeval.judges.people import is_imported
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.abstention import calibrate, declined
from longmemeval.measures.losses import cause_of, evidence_recall
from longmemeval.measures.metrics import Metrics, Score, credit
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.evaluate.agreement import JudgeAgreement, judge_agreements
from longmemeval.records import Answer
from longmemeval.report.charts.charts import (
    Chart,
    Curve,
    Group,
    Latencies,
    Point,
    Value,
    bar_chart,
    calibration_chart,
    dot_chart,
    latency_chart,
    recall_chart,
    tradeoff_chart,
)
from longmemeval.report.charts.svg import Shown
from longmemeval.report.charts.two_judges import JudgedBy, TwoJudges, two_judges_chart
from longmemeval.results.graded.graded_run import Evaluation, GradedRun
from longmemeval.results.scores.warnings import check_command
from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.misclassification import expected_agreement

_CUTOFFS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)
_LEAST_CALIBRATED = 200
"""The number of questions below which groups by recall score say nothing."""


def overall_chart(comparison: Comparison, shown: Sequence[Shown]) -> Chart | None:
    """Return a chart of all runs, the best first; None for a single run, whose table is enough."""
    if len(shown) < 2:
        return None
    scores = [run.summary.metrics.overall for run in comparison.rows]
    pairs = sorted(zip(shown, scores, strict=True), key=lambda pair: -pair[1].accuracy)
    bound = comparison.audits[0].ceiling.overall if comparison.audits else None
    groups = [Group(run.name, (_value(run, score),), bound) for run, score in pairs]
    return dot_chart("overall", "Overall", groups, axis=metric_of(comparison), baseline=scores[0].accuracy)


def metric_of(comparison: Comparison) -> str:
    """Return the name of the score, which is the same for all compared runs."""
    return comparison.metric


def group_chart(
    name: str,
    title: str,
    comparison: Comparison,
    shown: Sequence[Shown],
    groups_of: Callable[[Metrics], Mapping[str, Score]],
) -> Chart | None:
    """Return a chart with the scores of all runs for each type or ability; None if there are none."""
    by_run = [groups_of(run.summary.metrics) for run in comparison.rows]
    bounds = comparison.audits[0].ceiling.by_type if comparison.audits else {}
    groups = [
        Group(
            f"{label}, n = {next(scores[label].n for scores in by_run if label in scores):,}",
            tuple(_value(run, scores[label]) for run, scores in zip(shown, by_run, strict=True) if label in scores),
            bounds.get(label),
        )
        for label in dict.fromkeys(label for scores in by_run for label in scores)
    ]
    return dot_chart(name, title, groups, axis=metric_of(comparison)) if groups else None


def _value(run: Shown, score: Score) -> Value:
    return Value(run, score.accuracy, percent(score.accuracy), score.interval)


def loss_chart(comparison: Comparison, shown: Sequence[Shown]) -> Chart | None:
    """Return wrongly answered questions by the stage at which they were lost; None if there are none."""
    stages = list(dict.fromkeys(stage for figures in comparison.rows for stage in figures.lost))
    groups = [
        Group(
            cause_of(stage),
            tuple(
                Value(run, figures.lost.get(stage, 0), f"{figures.lost.get(stage, 0):,}")
                for run, figures in zip(shown, comparison.rows, strict=True)
            ),
        )
        for stage in stages
        if any(figures.lost.get(stage) for figures in comparison.rows)
    ]
    description = (
        "Questions without full credit, by the first stage at which labelled evidence is missing. “Evidence in "
        "prompt”: all evidence was there and the model still failed. “No evidence labelled”: mostly unanswerable "
        "questions."
    )
    return bar_chart("losses", "Stages", description, groups, axis="questions") if groups else None


def tradeoff_charts(comparison: Comparison, shown: Sequence[Shown]) -> list[Chart]:
    """Return scores against tokens, cost and latency, as far as these are known and differ between the runs."""

    def chart(
        name: str, title: str, axis: str, x_of: Callable[[GradedRun], float | None], form: Callable[[float], str]
    ) -> list[Chart]:
        points = []
        for run, figures in zip(shown, comparison.rows, strict=True):
            x, score = x_of(figures.summary), figures.summary.metrics.overall
            if x is not None:
                points.append(Point(run, x, form(x), score.accuracy, percent(score.accuracy), score.interval))
        enough = len({point.x for point in points}) > 1
        return [tradeoff_chart(name, title, points, x_axis=axis, score_axis=metric_of(comparison))] if enough else []

    dollars = "US dollars: prepare, analysis, answers, judge"
    waiting = "median milliseconds per question, recall and model"
    # The cost is unknown for answers made elsewhere, and for calls without a price.
    return [
        *chart("tokens", "Score vs. tokens", "prompt tokens per question", lambda run: run.mean_prompt_tokens, count),
        *chart("cost", "Score vs. cost", dollars, lambda summary: summary.costs.total.usd, in_dollars),
        *chart("waiting", "Score vs. latency", waiting, lambda summary: summary.latency.total.p50, milliseconds),
    ]


def recall_curves(graded: Sequence[Evaluation], shown: Sequence[Shown]) -> Chart | None:
    """Return the evidence among the first k messages; None if no run recalls messages or no evidence is labelled."""
    curves = []
    for shown_run, run in zip(shown, graded, strict=True):
        longest = max((len(answer.recall_ids) for answer in run.answers.values()), default=0)
        labelled = [gold for gold in run.asked.golds() if evidence_recall(gold, None) is not None]
        by_message = all(answer.provenance in ("message", None) for answer in run.answers.values())
        if not longest or not labelled or not by_message:
            continue
        cutoffs = [*(k for k in _CUTOFFS if k < longest), longest]
        shares = []
        for k in cutoffs:
            first = {
                question_id: structs.replace(answer, recall_ids=answer.recall_ids[:k])
                for question_id, answer in run.answers.items()
            }
            shares.append(fmean(evidence_recall(gold, first.get(gold.question_id)) or 0.0 for gold in labelled))
        curves.append(Curve(shown_run, tuple(cutoffs), tuple(shares)))
    return recall_chart(curves) if curves else None


def calibration_charts(graded: Sequence[Evaluation], shown: Sequence[Shown]) -> list[Chart]:
    """Return a chart per run with recall scores, if there are enough questions and some are unanswerable."""
    charts: list[Chart] = []
    if len(graded[0].asked.questions) < _LEAST_CALIBRATED:
        return charts
    for place, (shown_run, run) in enumerate(zip(shown, graded, strict=True)):
        unanswerable = {gold.question_id: gold.abstention for gold in run.asked.golds()}
        scores = {question_id: answer.top_score for question_id, answer in run.answers.items()}
        if not any(unanswerable.values()) or all(score is None for score in scores.values()):
            continue
        credits = {question_id: credit(judgement) for question_id, judgement in run.judgements.items()}
        texts = {question_id: answer.hypothesis for question_id, answer in run.answers.items() if answer.status == "ok"}
        calibration = calibrate(scores, unanswerable, credits, declined(texts) & unanswerable.keys())
        if calibration.curve:
            metric = run.metrics.judge.metric
            charts.append(calibration_chart(place, shown_run, metric, calibration))
    return charts


def judges_chart(graded: Sequence[Evaluation], shown: Sequence[Shown]) -> tuple[Chart | None, str]:
    """Return rates against agreement for pairs of judges of the same answers, and what is missing for other pairs."""
    drawn: list[TwoJudges] = []
    missing: dict[str, None] = {}
    for shown_run, run in zip(shown, graded, strict=True):
        judged = {metrics.judge.id: metrics for metrics in run.files.metrics}
        for pair in judge_agreements(run.files, run.asked, [metrics.judge for metrics in judged.values()]):
            two, lacks = _two_judges(shown_run, run, pair, (judged[pair.a], judged[pair.b]))
            drawn += [two] if two else []
            missing |= dict.fromkeys(lacks)
    return two_judges_chart(drawn) if drawn else None, " ".join(missing)


def _two_judges(
    shown: Shown, run: Evaluation, pair: JudgeAgreement, metrics: tuple[Metrics, Metrics]
) -> tuple[TwoJudges | None, list[str]]:
    """Return one run by two judges; None and what to do if the rates of a judge are unknown or allow no correction."""
    checks = [run.check_of(figures.judge) for figures in metrics]
    unchecked = [figures.judge for figures, check in zip(metrics, checks, strict=True) if check is None]
    if unchecked and run.asked.benchmark.planting is None:
        return None, []
    if unchecked:
        commands = [f"`{check_command(judge, run.asked)}`" for judge in unchecked if not is_imported(judge)]
        how = f": {' and '.join(commands)} (with the same votes and address)" if commands else ""
        names = ", ".join(judge.id for judge in unchecked)
        return None, [f"Error rates vs. agreement need a check of both judges; missing: {names}{how}."]
    rates = [check.rates for check in checks if check and check.rates]
    scores = [run.corrected(figures) for figures in metrics]
    agreed, n = pair.agreement.overall.agreed, pair.agreement.overall.n
    judged = tuple(
        JudgedBy(judge_name(own.judge), check.right_passed, check.wrong_passed, own.overall.accuracy, check.corrected)
        for own, check in zip(metrics, scores, strict=True)
        if check and check.corrected
    )
    if len(judged) < 2 or agreed is None:
        reasons = dict.fromkeys(score.reason for score in scores if score and score.reason)
        return None, [f"{shown.name}: the score by one of the judges cannot be corrected: {' and '.join(reasons)}."]
    first, second = judged
    # Agreement is over answers with labels, a corrected score over all questions.
    shares = [1 - figures.overall.not_evaluated / figures.overall.n for figures in metrics]
    middle = fmean(min(1.0, judge.corrected.value / share) for judge, share in zip(judged, shares, strict=True))
    bounds = [
        min(1.0, end / share) for judge, share in zip(judged, shares, strict=True) for end in judge.corrected.interval
    ]
    ends = [expected_agreement(accuracy, rates[0], rates[1]) for accuracy in (min(bounds), max(bounds))]
    return TwoJudges(
        run=shown,
        judges=(first, second),
        n=n,
        agreed=agreed,
        agreed_interval=wilson_interval(round(agreed * n), n),
        expected=expected_agreement(middle, rates[0], rates[1]),
        expected_range=(min(ends), max(ends)),
    ), []


def latency_ridges(answers: Sequence[Mapping[str, Answer]], shown: Sequence[Shown]) -> Chart | None:
    """Return a chart of the latencies of answers, recall and model together; None if no run called a model."""
    runs = []
    for shown_run, given in zip(shown, answers, strict=True):
        answered = (answer for answer in given.values() if answer.status == "ok" and answer.attempts)
        times = tuple(answer.total_ms for answer in answered if answer.total_ms is not None)
        if times:
            runs.append(Latencies(shown_run, times))
    return latency_chart(runs) if runs else None
