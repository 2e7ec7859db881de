"""Show the cost and latency of runs, as tables and in sentences."""

from collections.abc import Callable, Iterator, Sequence

from longmemeval.core.tables.table import Column, Record, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, count_of, ms, shown_bytes
from longmemeval.llm.options import is_offline
from longmemeval.measures.metrics import Latency
from longmemeval.report.tables.cells import usage_line
from longmemeval.results.graded.graded_run import Cost, RunCosts, RunLatency, RunSummary, cost_text, sum_costs
from longmemeval.results.lines import Footprint

PAID_ONCE = (
    "Preparing is paid for once: every run that reads the same parts of a preparation shows all of what they cost, so "
    "sums of several runs do not add up."
)
COST_UNKNOWN = (
    f"{UNKNOWN} is not known: a model without a price, answers made elsewhere, or work that no journal records. A sum "
    "that lacks one of its parts is not known either."
)
FOOTPRINT = "What memories take up"
COST = "Cost in US dollars (reported)"
"""What only the run reports, `verify` cannot recompute: its title says so."""
LATENCY = "Latency per question in milliseconds (reported)"
FREE = "Cost of prepare, question analysis, answers and judge: $0, no model was paid for."


def kinds(costs: RunCosts) -> dict[str, Cost]:
    """Return the costs by kind of work, under the names used in tables."""
    return {
        "prepare": costs.prepare,
        "question analysis": costs.question_analysis,
        "answers": costs.answers,
        "judge": costs.judge,
    }


def work_table(costs: RunCosts) -> Table:
    """Return the costs of one run: a row for each kind of work and one for the sum."""
    columns: list[Column[tuple[str, Cost]]] = [
        Column("cost (reported)", lambda row: row[0], "text"),
        Column("calls", lambda row: row[1].calls),
        Column("from the\ncache", lambda row: row[1].cached_calls),
        Column("billed\nprompt", lambda row: row[1].prompt_tokens),
        Column("billed\nreply", lambda row: row[1].completion_tokens),
        Column("US dollars", lambda row: cost_text(row[1])),
    ]
    return tabulate("", columns, (kinds(costs) | {"sum": costs.total}).items())


def work_line(cost: Cost) -> str:
    """Return the calls, tokens and price of one kind of work, in one line."""
    usage = cost.usage
    return usage_line(usage) if usage else "not known"


Named = tuple[str, RunSummary]
"""A run with its name in a table."""


def cost_table(
    summaries: Sequence[RunSummary], names: Sequence[str], cheaper_from: Sequence[int | str | None] = ()
) -> Table:
    """Return a row per run; no rows if nothing was paid for.

    Args:
        summaries: summaries of the runs.
        names: names of the runs, in the same order.
        cheaper_from: for each run, the number of questions on one history from which it costs less than the full
            history.
    """
    from_of = dict(zip(names, cheaper_from, strict=False))
    columns: list[Column[Named]] = [
        Column("memory", lambda row: row[0], "text"),
        Column("prepare", lambda row: cost_text(row[1].costs.prepare), drop=3),
        Column("question\nanalysis", lambda row: cost_text(row[1].costs.question_analysis), drop=4),
        Column("answers", lambda row: cost_text(row[1].costs.answers), drop=1),
        Column("judge", lambda row: cost_text(row[1].costs.judge), drop=2),
        Column("sum", lambda row: cost_text(row[1].costs.total)),
        Column("analysis, answers:\n1,000 questions", lambda row: _cost_of_1000(row[1]), drop=5),
    ]
    if any(number is not None for number in cheaper_from):
        columns.append(Column("cheaper than full\nhistory from question", lambda row: from_of[row[0]], drop=6))
    paid = not _all_free(summaries)
    return tabulate(COST, columns, zip(names, summaries, strict=True) if paid else ())


def _cost_of_1000(summary: RunSummary) -> str:
    """Return the cost of asking 1,000 more questions."""
    costs, questions = summary.costs, summary.metrics.overall.n
    answering = sum_costs([costs.question_analysis, costs.answers])
    return cost_text(answering, 1000 / questions) if questions else UNKNOWN


def latency_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run; no rows if nothing was timed."""
    columns: list[Column[Named]] = [Column("memory", lambda row: row[0], "text"), *latency_columns(lambda row: row[1])]
    timed = any(summary.latency.total.p50 is not None for summary in summaries)
    rows = zip(names, summaries, strict=True) if timed else ()
    return tabulate(LATENCY, columns, rows)


def latency_columns(summary_of: Callable[[Record], RunSummary]) -> list[Column[Record]]:
    """Return median and 95th percentile of recall, model calls and both; `drop` removes the least telling first."""
    return [
        Column("recall\np50", lambda row: ms(summary_of(row).latency.recall.p50), drop=2),
        Column("recall\np95", lambda row: ms(summary_of(row).latency.recall.p95), drop=5),
        Column("model\np50", lambda row: ms(summary_of(row).latency.model.p50), drop=1),
        Column("model\np95", lambda row: ms(summary_of(row).latency.model.p95), drop=4),
        Column("both\np50", lambda row: ms(summary_of(row).latency.total.p50)),
        Column("both\np95", lambda row: ms(summary_of(row).latency.total.p95), drop=3),
    ]


def both(latency: Latency) -> str:
    """Return median and 95th percentile in one cell, in milliseconds."""
    return f"{ms(latency.p50)} / {ms(latency.p95)}"


def latency_line(latency: RunLatency) -> str:
    """Return the latency of one run in one sentence."""
    if latency.total.p50 is None:
        return "Latency per question: not known."
    named = {"recall": latency.recall, "model": latency.model, "both": latency.total}
    parts = (f"{name} p50 {ms(times.p50)}, p95 {ms(times.p95)}" for name, times in named.items())
    return f"{LATENCY}: {'; '.join(parts)}."


def footprint_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run with the space its memory takes up; no rows if nothing is known."""
    columns: list[Column[Named]] = [
        Column("memory", lambda row: row[0], "text"),
        Column("histories", lambda row: row[1].footprint.histories or None),
        Column("on disk", lambda row: shown_bytes(row[1].footprint.stored_bytes)),
        Column("on disk,\na history", lambda row: shown_bytes(_stored_of_one(row[1].footprint)), drop=2),
        Column(
            "resident memory of its\nprocesses (reported)",
            lambda row: shown_bytes(row[1].footprint.resident_bytes),
            drop=1,
        ),
    ]
    known = any(not _is_unknown(summary.footprint) for summary in summaries)
    return tabulate(FOOTPRINT, columns, zip(names, summaries, strict=True) if known else ())


def footprint_line(footprint: Footprint) -> str:
    """Return the space that the memory of one run takes up, in one sentence."""
    if _is_unknown(footprint):
        return "Footprint of the memory: not known."
    histories = count_of(footprint.histories, "history", "histories")
    average = f", {shown_bytes(_stored_of_one(footprint))} each" if footprint.histories > 1 else ""
    stored = "not known on disk" if footprint.stored_bytes is None else f"{shown_bytes(footprint.stored_bytes)} on disk"
    peak = footprint.resident_bytes
    own = "" if peak is None else f"; its processes took up to {shown_bytes(peak)} of memory (reported)"
    return f"Footprint of the memory: {stored} ({histories}{average if footprint.stored_bytes else ''}){own}."


def _is_unknown(footprint: Footprint) -> bool:
    return footprint.stored_bytes is None and footprint.resident_bytes is None


def _stored_of_one(footprint: Footprint) -> float | None:
    stored = footprint.stored_bytes
    return None if stored is None or not footprint.histories else stored / footprint.histories


def effort_notes(summaries: Sequence[RunSummary], *, shows_costs: bool = False) -> Iterator[str]:
    """Yield the notes on costs and tokens.

    Args:
        summaries: summaries of the runs.
        shows_costs: True if a table of costs, which is left out if all are $0, stands above.
    """
    if _all_free(summaries) and not shows_costs:
        yield FREE
    if sum(summary.costs.prepare.known_usd > 0 for summary in summaries) > 1:
        yield PAID_ONCE
    if any(summary.costs.total.usd is None and not summary.costs.total.is_partly_known for summary in summaries):
        yield COST_UNKNOWN
    for summary in summaries:
        for name, cost in kinds(summary.costs).items():
            if cost.is_partly_known:
                unpriced = count_of(cost.unpriced_calls or 0, "call")
                yield f"{summary.run_id}: {unpriced} of {name} without a known price; ≥ is what the others cost."
            if cost.cached_calls:
                calls = f"{cost.cached_calls:,} of {cost.calls:,} calls of {name}"
                yield f"{summary.run_id}: {calls} were answered by the cache and cost nothing again."
        if summary.latency_note and not is_offline(summary.model):
            yield f"{summary.run_id}: {summary.latency_note}."
        if summary.calls_per_question is not None and summary.calls_per_question > 1:
            calls = f"{summary.calls_per_question:,.1f} calls per question"
            yield f"{summary.run_id}: {calls}; its prompt tokens are those of all of them."


def _all_free(summaries: Sequence[RunSummary]) -> bool:
    totals = [summary.costs.total for summary in summaries]
    return all(total.usd == 0 and not total.cached_calls for total in totals)
