"""Tables and lines that the command line prints. Rounding happens here and nowhere before."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from longmemeval.evaluation.abstention import Abstaining
from longmemeval.evaluation.metrics import Metrics, Score
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.pipeline.compare.graded_run import RunSummary
from longmemeval.records import Usage
from longmemeval.report.tables.table import Table
from longmemeval.text.plural import count_of

UNKNOWN = "\u2013"
"""What is in a cell whose figure is not known: a dash."""
WARNED = "!"
"""Beside a score that a warning is about."""
_LEAST_SHOWN = 0.0001


def warned(summary: RunSummary) -> str:
    """The mark behind a score that warnings are about; empty where there are none."""
    return f" {WARNED}" if summary.warnings else ""


def score_table(title: str, summary: RunSummary) -> Table:
    """Overall, task average, types, facets and abstention, one row each.

    A judge of scores gives means and full credit instead of accuracy and correct.
    """
    metrics = summary.metrics
    right = "correct" if metrics.judge.metric == "accuracy" else "full\ncredit"
    columns = ["", metrics.judge.metric, "95 % interval", right, "n", "not\nevaluated"]
    overall = _score_row("overall", metrics.overall)
    rows = [[overall[0], overall[1] + warned(summary), *overall[2:]]]
    if metrics.answerable:
        rows.append(_score_row("answerable only", metrics.answerable))
    average = "-" if metrics.task_averaged is None else percent(metrics.task_averaged)
    rows.append(["task average", average, "", "", "", ""])
    rows += [_score_row(name, score) for name, score in metrics.by_type.items()]
    rows += [_score_row(f"  {name}", score) for name, score in metrics.by_facet.items()]
    if metrics.abstention and "abstention" not in metrics.by_type:
        rows.append(_score_row("abstention", metrics.abstention))
    return Table(title, columns, rows, prose=frozenset({0}), drop=(3,))


def _score_row(name: str, score: Score) -> list[str]:
    return [name, percent(score.accuracy), interval(score), str(score.correct), str(score.n), str(score.not_evaluated)]


def abstention_lines(metrics: Metrics) -> list[str]:
    """What abstaining did, and what a threshold on the recall score would have done, a line each."""
    lines = []
    if (found := metrics.abstaining) is not None:
        parts = [f"{name} {share}" for name, share in abstaining_shares(found).items() if share]
        right = f"{found.right} of {found.abstained} abstentions were right"
        counts = f"{right}, {found.unanswerable} questions were unanswerable"
        lines.append(f"Abstaining: {', '.join([*parts, counts])}.")
    if metrics.calibration is not None and (held_out := metrics.calibration.held_out) is not None:
        parts = [f"{name} {share}" for name, share in abstaining_shares(held_out.abstaining).items() if share]
        lines.append(
            f"Abstaining below a recall score of {metrics.calibration.threshold:.3g} (chosen on "
            f"{metrics.calibration.chosen_on} questions) would give on the other {held_out.n}: {', '.join(parts)}; "
            f"{metrics.judge.metric} {percent(held_out.accuracy)} instead of {percent(held_out.judged_accuracy)}."
        )
    return lines


def abstaining_shares(found: Abstaining) -> dict[str, str]:
    """Precision and recall, with their intervals where they have some, and F1; empty texts for what is not defined."""
    shares = (
        ("precision", found.precision, found.precision_interval),
        ("recall", found.recall, found.recall_interval),
        ("F1", found.f1, None),
    )
    return {
        name: "" if share is None else percent(share) + (f" {_bounds(bounds)}" if bounds else "")
        for name, share, bounds in shares
    }


def memory_table(title: str, summaries: Iterable[RunSummary]) -> Table:
    """One row per run, named by its memory; controls last, set apart and marked."""
    summaries = sorted(summaries, key=lambda one: one.control is not None)
    columns = ["memory", "accuracy,\n95 % interval", "corrected for\nthe judge", "abstention", "not\nevaluated"]
    columns += ["prompt\ntokens", "cost"]
    return Table(
        title, columns, [_memory_row(summary) for summary in summaries], apart=apart(summaries), drop=(6, 3, 5, 2)
    )


def apart(summaries: Sequence[RunSummary]) -> int:
    """How many controls are at the end, after runs that are none."""
    last = len(list(takewhile(lambda one: one.control, reversed(summaries))))
    return last if last < len(summaries) else 0


def row_name(summary: RunSummary) -> str:
    """What a row is of: the memory, or the model of a control that has one."""
    return summary.model if summary.model in CONTROL_MODELS else summary.memory


def _memory_row(summary: RunSummary) -> list[str]:
    metrics = summary.metrics
    tokens = summary.mean_prompt_tokens
    return [
        row_name(summary) + (" (control)" if summary.control else ""),
        f"{percent(metrics.overall.accuracy)} {interval(metrics.overall)}{warned(summary)}",
        corrected_cell(summary),
        percent(metrics.abstention.accuracy) if metrics.abstention else "-",
        str(metrics.overall.not_evaluated),
        "-" if tokens is None else f"{tokens:,.0f}",
        dollars(summary.costs.total.usd),
    ]


def percent(fraction: float) -> str:
    """A fraction as `83.6 %`."""
    return f"{fraction * 100:.1f} %"


def interval(score: Score) -> str:
    """The 95 % interval as `[80.1, 86.6]`, in percent."""
    return _bounds(score.interval)


def _bounds(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0] * 100:.1f}, {bounds[1] * 100:.1f}]"


def corrected_cell(summary: RunSummary) -> str:
    """The score corrected for the judge's errors, with its interval; a dash where the judge was not checked."""
    if summary.judge_check is None:
        return UNKNOWN
    corrected = summary.judge_check.corrected
    return "not identifiable" if corrected is None else f"{percent(corrected.value)} {_bounds(corrected.interval)}"


def usage_share(usage: Usage, haystacks: int, messages: int) -> str:
    """What model calls took for each haystack and for 1,000 messages, in one line."""
    tokens, cost = usage.prompt_tokens + usage.completion_tokens, None if usage.unpriced_calls else usage.cost_usd
    shares = (("haystack", haystacks), ("1,000 messages", messages / 1000))
    shown = (
        f"{tokens / count:,.0f} tokens and {dollars(None if cost is None else cost / count)} per {name}"
        for name, count in shares
        if count
    )
    return ", ".join(shown)


def dollars(usd: float | None) -> str:
    """US dollars: `$0` for nothing at all, a dash for what is not known."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.4f}" if usd >= _LEAST_SHOWN else f"< ${_LEAST_SHOWN:.4f}" if usd else "$0"


def usage_line(usage: Usage) -> str:
    """Calls, tokens and price in one line."""
    cached = f" ({usage.cached_calls:,} from the cache)" if usage.cached_calls else ""
    price = dollars(usage.cost_usd)
    if usage.unpriced_calls:
        price = f"at least {price}" if usage.cost_usd else "cost not known"
    return (
        f"{count_of(usage.calls, 'call')}{cached}, {usage.prompt_tokens:,} prompt and "
        f"{usage.completion_tokens:,} completion tokens, {price}"
    )
