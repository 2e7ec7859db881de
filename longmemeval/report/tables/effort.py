"""What runs cost and how long they took, as tables and in sentences."""

from collections.abc import Iterator, Sequence

from longmemeval.core.text.plural import count_of
from longmemeval.llm.options import is_offline
from longmemeval.measures.metrics import Latency
from longmemeval.records import Usage
from longmemeval.report.tables.cells import UNKNOWN, cost_text, usage_line
from longmemeval.report.tables.table import Table
from longmemeval.results.graded.costs import Cost, RunCosts, sum_costs
from longmemeval.results.graded.graded_run import RunLatency, RunSummary

PAID_ONCE = (
    "Preparing is paid for once: every run that reads the same parts of a preparation shows all of what they cost, so "
    "sums of several runs do not add up."
)
COST_UNKNOWN = (
    f"{UNKNOWN} is not known: a model without a price, answers made elsewhere, or work that no journal records. A sum "
    "that lacks one of its parts is not known either."
)
PERCENTILES = tuple(f"{what}\n{rank}" for what in ("recall", "model", "both") for rank in ("p50", "p95"))
"""Headings over `latency_cells`."""
FREE = "Cost of prepare, question analysis, answers and judge: $0, no model was paid for."


def kinds(costs: RunCosts) -> dict[str, Cost]:
    """Return the costs by the kind of work, as tables name it."""
    return {
        "prepare": costs.prepare,
        "question analysis": costs.question_analysis,
        "answers": costs.answers,
        "judge": costs.judge,
    }


def work_table(costs: RunCosts) -> Table:
    """Return the costs of one run: a row for each kind of work and one for the sum."""
    columns = ["cost", "calls", "from the\ncache", "billed\nprompt", "billed\nreply", "US dollars"]
    rows = [
        [name, *map(_count, (one.calls, one.cached_calls, one.prompt_tokens, one.completion_tokens)), cost_text(one)]
        for name, one in (kinds(costs) | {"sum": costs.total}).items()
    ]
    return Table("", columns, rows)


def work_line(one: Cost) -> str:
    """Return what one kind of work took, in one line."""
    if one.calls is None:
        return "not known"
    return usage_line(
        Usage(
            one.calls,
            one.cached_calls or 0,
            one.prompt_tokens or 0,
            one.completion_tokens or 0,
            one.known_usd,
            one.unpriced_calls or 0,
        )
    )


def cost_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run; without rows where nothing was paid for.

    Args:
        summaries: of the runs.
        names: what they are called, in the same order.
    """
    columns = ["run", "prepare", "question\nanalysis", "answers", "judge", "sum", "analysis, answers:\n1,000 questions"]
    rows = [[name, *cost_cells(summary)] for name, summary in zip(names, summaries, strict=True)]
    return Table("Cost in US dollars", columns, [] if _all_free(summaries) else rows, drop=(6, 2, 1, 4, 3))


def cost_cells(summary: RunSummary) -> list[str]:
    """Return the cost of each kind of work, of all of it, and of asking 1,000 more questions."""
    costs, questions = summary.costs, summary.metrics.overall.n
    asked = sum_costs([costs.question_analysis, costs.answers])
    more = cost_text(asked, 1000 / questions) if questions else UNKNOWN
    return [*map(cost_text, (*kinds(costs).values(), costs.total)), more]


def latency_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run; without rows where nothing was timed."""
    rows = [[name, *latency_cells(summary.latency)] for name, summary in zip(names, summaries, strict=True)]
    timed = any(summary.latency.total.p50 is not None for summary in summaries)
    title = "Latency per question in milliseconds"
    return Table(title, ["run", *PERCENTILES], rows if timed else [], drop=(2, 4, 6, 1, 3))


def latency_cells(latency: RunLatency) -> list[str]:
    """Median and 95th percentile of recall, of model calls and of both."""
    return [ms(value) for one in (latency.recall, latency.model, latency.total) for value in (one.p50, one.p95)]


def both(latency: Latency) -> str:
    """Median and 95th percentile in one cell, milliseconds."""
    return f"{ms(latency.p50)} / {ms(latency.p95)}"


def latency_line(latency: RunLatency) -> str:
    """Return the latency of one run in one sentence."""
    if latency.total.p50 is None:
        return "Latency per question: not known."
    named = {"recall": latency.recall, "model": latency.model, "both": latency.total}
    parts = (f"{name} p50 {ms(one.p50)}, p95 {ms(one.p95)}" for name, one in named.items())
    return f"Latency per question in milliseconds: {'; '.join(parts)}."


def effort_notes(summaries: Sequence[RunSummary], *, told_free: bool = False) -> Iterator[str]:
    """Return the notes under costs and tokens.

    Args:
        summaries: of the runs.
        told_free: whether a table of costs, which is left out where all are $0, is above.
    """
    if _all_free(summaries) and not told_free:
        yield FREE
    if sum(summary.costs.prepare.known_usd > 0 for summary in summaries) > 1:
        yield PAID_ONCE
    if any(one.costs.total.usd is None and not one.costs.total.is_partly_known for one in summaries):
        yield COST_UNKNOWN
    for summary in summaries:
        for name, one in kinds(summary.costs).items():
            if one.is_partly_known:
                unpriced = count_of(one.unpriced_calls or 0, "call")
                yield f"{summary.run_id}: {unpriced} of {name} without a known price; ≥ is what the others cost."
            if one.cached_calls:
                calls = f"{one.cached_calls:,} of {one.calls:,} calls of {name}"
                yield f"{summary.run_id}: {calls} were answered by the cache and cost nothing again."
        if summary.latency_note and not is_offline(summary.model):
            yield f"{summary.run_id}: {summary.latency_note}."
        if summary.calls_per_question is not None and summary.calls_per_question > 1:
            calls = f"{summary.calls_per_question:,.1f} calls per question"
            yield f"{summary.run_id}: {calls}; its prompt tokens are those of all of them."


def _all_free(summaries: Sequence[RunSummary]) -> bool:
    totals = [summary.costs.total for summary in summaries]
    return all(total.usd == 0 and not total.cached_calls for total in totals)


def ms(value: float | None) -> str:
    """Milliseconds, a decimal where they are few."""
    return f"{value:.1f}" if value is not None and value < 9.95 else _count(value)


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
