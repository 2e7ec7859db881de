"""Tables and lines that the command line prints. Rounding happens here and nowhere before."""

from collections.abc import Sequence
from itertools import takewhile

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.text.plural import count_of
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.measures.abstention import Abstaining, HeldOut
from longmemeval.measures.metrics import Metrics, Score
from longmemeval.records import Usage
from longmemeval.report.tables.table import Table
from longmemeval.results.graded.costs import Cost, cost_of
from longmemeval.results.graded.graded_run import RunSummary

UNKNOWN = "\u2013"
"""What is in a cell whose figure is not known: a dash."""
WARNED = "!"
"""Beside a score that a warning is about."""
_LEAST_SHOWN = 0.0001


def warned(summary: RunSummary) -> str:
    """Return the mark behind a score that warnings are about; empty where there are none."""
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


def task_average_note(metrics: Metrics, benchmark: Benchmark) -> str | None:
    """Say which question types the benchmark's mean over the types lacks; None where it lacks none."""
    needed = benchmark.types.average_needs
    missing = [name for name in (*benchmark.types.order, *sorted(needed)) if name in needed - metrics.by_type.keys()]
    if not missing:
        return None
    names = ", ".join(dict.fromkeys(missing))
    count = f"{len(set(missing))} of {benchmark.title}'s {len(needed)} question types"
    return f"Task average: not defined, as {count} do not occur: {names}."


def abstention_lines(metrics: Metrics) -> list[str]:
    """Return what abstaining did, and what a threshold on the recall score would have done, a line each."""
    lines = []
    if (found := metrics.abstaining) is not None:
        parts = [f"{name} {share}" for name, share in abstaining_shares(found).items() if share]
        right = f"{found.right} of {found.abstained} abstentions were right"
        counts = f"{right}; {count_of(found.unanswerable, 'question was', 'questions were')} unanswerable"
        lines.append(f"Abstaining: {', '.join([*parts, counts])}.")
    # Where the judge gives declining nothing, a threshold that declines has nothing to gain.
    if metrics.calibration and (held_out := metrics.calibration.held_out) and held_out.pays:
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


def apart(summaries: Sequence[RunSummary]) -> int:
    """Return how many controls are at the end, after runs that are none."""
    last = len(list(takewhile(lambda one: one.control, reversed(summaries))))
    return last if last < len(summaries) else 0


def row_name(summary: RunSummary) -> str:
    """Return the name of a row: the memory, or the model of a control that has one."""
    return summary.model if summary.model in CONTROL_MODELS else summary.memory


def percent(fraction: float) -> str:
    """Return a fraction as `83.6 %`."""
    return f"{fraction * 100:z.1f} %"


def interval(score: Score) -> str:
    """Return the 95 % interval as `[80.1, 86.6]`, in percent."""
    return _bounds(score.interval)


def _bounds(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0] * 100:z.1f}, {bounds[1] * 100:z.1f}]"


def corrected_cell(summary: RunSummary) -> str:
    """Return the score corrected for the judge's errors, with its interval; a dash where the judge was not checked.

    By the rates of another data set it has an asterisk, which the note under the table explains.
    """
    if summary.judge_check is None:
        return UNKNOWN
    corrected, elsewhere = summary.judge_check.corrected, "*" if summary.judge_check.other_data else ""
    shown = "not possible" if corrected is None else f"{percent(corrected.value)} {_bounds(corrected.interval)}"
    return shown + elsewhere


def usage_share(usage: Usage, haystacks: int, messages: int) -> str:
    """Return what model calls took for each haystack and for 1,000 messages, in one line."""
    tokens, cost = usage.prompt_tokens + usage.completion_tokens, cost_of(usage)
    shares = (("haystack", haystacks), ("1,000 messages", messages / 1000))
    shown = (
        f"{tokens / count:,.0f} tokens and {cost_text(cost, 1 / count)} per {name}" for name, count in shares if count
    )
    return ", ".join(shown)


def dollars(usd: float | None) -> str:
    """US dollars: `$0` for nothing at all, a dash for what is not known."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.4f}" if usd >= _LEAST_SHOWN else f"< ${_LEAST_SHOWN:.4f}" if usd else "$0"


def cost_text(cost: Cost, share: float = 1.0) -> str:
    """Return a cost in US dollars, or `share` of it: `≥` where some calls have no known price, a dash for unknown."""
    if not cost.is_partly_known:
        return dollars(None if cost.usd is None else cost.usd * share)
    known = cost.known_usd * share
    return f"≥ {dollars(known)}" if known >= _LEAST_SHOWN else "> $0"


def usage_line(usage: Usage) -> str:
    """Return calls, tokens and price in one line."""
    cached = f" ({usage.cached_calls:,} from the cache)" if usage.cached_calls else ""
    price = dollars(usage.cost_usd)
    if usage.unpriced_calls:
        unpriced = count_of(usage.unpriced_calls, "call")
        price = f"at least {price}, {unpriced} without a known price" if usage.cost_usd else "cost not known"
    return (
        f"{count_of(usage.calls, 'call')}{cached}, {usage.prompt_tokens:,} prompt and "
        f"{usage.completion_tokens:,} completion tokens, {price}"
    )
