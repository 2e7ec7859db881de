"""The table of one run's scores, and the cells and lines that tables of runs share."""

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import bounds, count_of, in_dollars, percent
from longmemeval.measures.abstention import Abstaining, HeldOut
from longmemeval.measures.metrics import Metrics, Score
from longmemeval.pipeline.compare.columns import WARNED
from longmemeval.records import Usage
from longmemeval.results.graded.graded_run import RunSummary, cost_of, cost_text


class _ScoreRow(Struct, frozen=True):
    name: str
    score: Score | None
    """The score; None in the row of the task average, which is not a score of questions."""
    text: str = ""
    """The text shown for the score; empty: its percentage."""


def score_table(title: str, summary: RunSummary) -> Table:
    """Return a row each for overall, task average, types, facets and abstention.

    If the judge gives scores, the columns show means and full credit instead of accuracy and correct answers.
    """
    metrics = summary.metrics
    rows = [
        _ScoreRow(
            "overall", metrics.overall, percent(metrics.overall.accuracy) + (f" {WARNED}" if summary.warnings else "")
        )
    ]
    if metrics.answerable:
        rows.append(_ScoreRow("answerable only", metrics.answerable))
    rows.append(_ScoreRow("task average", None, percent(metrics.task_averaged)))
    rows += [_ScoreRow(name, score) for name, score in metrics.by_type.items()]
    rows += [_ScoreRow(f"  {name}", score) for name, score in metrics.by_facet.items()]
    if metrics.abstention and "abstention" not in metrics.by_type:
        rows.append(_ScoreRow("abstention", metrics.abstention))
    right = "correct" if metrics.judge.metric == "accuracy" else "full\ncredit"
    columns: list[Column[_ScoreRow]] = [
        Column("", lambda row: row.name, "prose"),
        Column(metrics.judge.metric, lambda row: row.text or percent(row.score.accuracy if row.score else None)),
        Column("95 % interval", lambda row: bounds(row.score.interval) if row.score else ""),
        Column(right, lambda row: row.score.correct if row.score else "", drop=1),
        Column("n", lambda row: row.score.n if row.score else ""),
        Column("not\nevaluated", lambda row: row.score.not_evaluated if row.score else ""),
    ]
    return tabulate(title, columns, rows)


def task_average_note(metrics: Metrics, benchmark: Benchmark) -> str | None:
    """Name the question types that are missing from the benchmark's mean over types; None if none is."""
    needed = benchmark.types.average_needs
    missing = [name for name in (*benchmark.types.order, *sorted(needed)) if name in needed - metrics.by_type.keys()]
    if not missing:
        return None
    names = ", ".join(dict.fromkeys(missing))
    count = f"{len(set(missing))} of {benchmark.title}'s {len(needed)} question types"
    return f"Task average: not defined, as {count} do not occur: {names}."


def abstention_lines(metrics: Metrics) -> list[str]:
    """Return a line on the effect of abstaining, and a line on what a threshold on the recall score would have done."""
    lines = []
    if (abstaining := metrics.abstaining) is not None:
        parts = [f"{name} {share}" for name, share in abstaining_shares(abstaining).items() if share]
        right = f"{abstaining.right} of {abstaining.abstained} abstentions were right"
        counts = f"{right}; {count_of(abstaining.unanswerable, 'question was', 'questions were')} unanswerable"
        lines.append(f"Abstaining: {', '.join([*parts, counts])}.")
    # If the judge gives no credit for declining, a threshold has nothing to gain.
    if metrics.calibration and (held_out := metrics.calibration.held_out) and held_out.pays and not held_out.costs:
        parts = [f"{name} {share}" for name, share in abstaining_shares(held_out.abstaining).items() if share]
        lines.append(
            f"Abstaining below a recall score of {metrics.calibration.threshold:.3g} (chosen on "
            f"{metrics.calibration.chosen_on} questions) would give on the other {held_out.n}: {', '.join(parts)}"
            f"{_with_threshold(held_out, metrics.judge.metric)}."
        )
    return lines


def _with_threshold(held_out: HeldOut, metric: str) -> str:
    if held_out.accuracy is None:
        return ""
    gain = f"{metric} {percent(held_out.accuracy)} instead of {percent(held_out.judged_accuracy)}"
    return f"; {gain}, as this judge gives an answer that rightly declines {held_out.declining:.2g} on average"


def abstaining_shares(abstaining: Abstaining) -> dict[str, str]:
    """Return precision and recall, with intervals if they have any, and F1; a text is empty if undefined."""
    shares = (
        ("precision", abstaining.precision, abstaining.precision_interval),
        ("recall", abstaining.recall, abstaining.recall_interval),
        ("F1", abstaining.f1, None),
    )
    return {
        name: "" if share is None else percent(share) + (f" {bounds(interval)}" if interval else "")
        for name, share, interval in shares
    }


def controls_apart(summaries: Sequence[RunSummary]) -> list[int]:
    """Return the index at which the controls at the end begin; empty if there are none, or no other runs."""
    last = len(list(takewhile(lambda summary: summary.control, reversed(summaries))))
    return [len(summaries) - last] if 0 < last < len(summaries) else []


def usage_share(usage: Usage, haystacks: int, messages: int) -> str:
    """Return the tokens and cost of model calls per haystack and per 1,000 messages, in one line."""
    tokens, cost = usage.prompt_tokens + usage.completion_tokens, cost_of(usage)
    shares = (("haystack", haystacks), ("1,000 messages", messages / 1000))
    shown = (
        f"{tokens / count:,.0f} tokens and {cost_text(cost, 1 / count)} per {name}" for name, count in shares if count
    )
    return ", ".join(shown)


def usage_line(usage: Usage) -> str:
    """Return calls, tokens and price in one line."""
    cached = f" ({usage.cached_calls:,} from the cache)" if usage.cached_calls else ""
    price = in_dollars(usage.cost_usd)
    if usage.unpriced_calls:
        unpriced = count_of(usage.unpriced_calls, "call")
        price = f"at least {price}, {unpriced} without a known price" if usage.cost_usd else "cost not known"
    return (
        f"{count_of(usage.calls, 'call')}{cached}, {usage.prompt_tokens:,} prompt and "
        f"{usage.completion_tokens:,} completion tokens, {price}"
    )
