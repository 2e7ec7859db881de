"""Tables of single runs: their scores, cost and latency, and the model calls of their memories."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.tables.table import Column, Record, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    count_of,
    in_dollars,
    ms,
    percent,
    percents,
    shown_bytes,
)
from longmemeval.embedding.registry import is_remote
from longmemeval.llm.options import is_offline
from longmemeval.measures.abstention import Abstaining, HeldOut
from longmemeval.measures.metrics import Latency, Metrics, Score
from longmemeval.records import Usage
from longmemeval.results.graded.graded_run import Cost, GradedRun, RunCosts, RunLatency, cost_of, cost_text, sum_costs
from longmemeval.results.lines import Footprint
from longmemeval.results.scores.warnings import WARNED

# The table of one run's scores, and the cells and lines that tables of runs share.


class _ScoreRow(Struct, frozen=True):
    name: str
    score: Score | None
    """The score; None in the row of the task average, which is not a score of questions."""
    text: str = ""
    """The text shown for the score; empty: its percentage."""


def score_table(title: str, summary: GradedRun) -> Table:
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
        Column("95% CI", lambda row: bounds(row.score.interval) if row.score else ""),
        Column(right, lambda row: row.score.correct if row.score else "", drop=1),
        Column("n", lambda row: row.score.n if row.score else ""),
        Column("not\ngraded", lambda row: row.score.not_evaluated if row.score else ""),
    ]
    return tabulate(title, columns, rows)


def task_average_note(metrics: Metrics, benchmark: Benchmark) -> str | None:
    """Name the question types that are missing from the benchmark's mean over types; None if none is."""
    needed = benchmark.types.average_needs
    missing = [name for name in (*benchmark.types.order, *sorted(needed)) if name in needed - metrics.by_type.keys()]
    if not missing:
        return None
    names = ", ".join(dict.fromkeys(missing))
    number = len(set(missing))
    count = f"{number} of {benchmark.title}'s {len(needed)} question types {'is' if number == 1 else 'are'} missing"
    return f"Task average: not defined, as {count}: {names}."


_LEAST_HELD_OUT = 30
"""Number of questions below which nothing is said of a threshold's effect on them."""


def abstention_lines(metrics: Metrics) -> list[str]:
    """Return a line on the effect of abstaining, and a line on what a threshold on the recall score would have done."""
    lines = []
    if (abstaining := metrics.abstaining) is not None:
        parts = [f"{name} {share}" for name, share in abstaining_shares(abstaining).items() if share]
        right = f"{abstaining.right} of {abstaining.abstained} abstentions were right"
        counts = f"{right}; {count_of(abstaining.unanswerable, 'question was', 'questions were')} unanswerable"
        lines.append(f"Abstaining: {', '.join([*parts, counts])}.")
    # If the judge gives no credit for declining, a threshold has nothing to gain.
    held_out = metrics.calibration.held_out if metrics.calibration else None
    if metrics.calibration and held_out and held_out.n >= _LEAST_HELD_OUT and held_out.pays and not held_out.costs:
        parts = [f"{name} {share}" for name, share in abstaining_shares(held_out.abstaining).items() if share]
        lines.append(
            f"With a recall threshold of {metrics.calibration.threshold:.3g} (chosen on "
            f"{metrics.calibration.chosen_on} questions), abstention on the other {held_out.n} would be: "
            f"{', '.join(parts)}"
            f"{_with_threshold(held_out, metrics.judge.metric)}."
        )
    return lines


def _with_threshold(held_out: HeldOut, metric: str) -> str:
    if held_out.accuracy is None:
        return ""
    accuracy, judged = percents(held_out.accuracy, held_out.judged_accuracy)
    gain = f"{metric} {accuracy} " + ("with and without it" if accuracy == judged else f"instead of {judged}")
    return f"; {gain}, as this judge gives a correct abstention {held_out.declining:.2g} on average"


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


def controls_apart(summaries: Sequence[GradedRun]) -> list[int]:
    """Return the index at which the controls at the end begin; empty if there are none, or no other runs."""
    last = len(list(takewhile(lambda summary: summary.control, reversed(summaries))))
    return [len(summaries) - last] if 0 < last < len(summaries) else []


def usage_share(usage: Usage, haystacks: int, messages: int) -> str:
    """Return the tokens and cost of model calls per haystack and per 1,000 messages, in one line."""
    tokens, cost = usage.prompt_tokens + usage.completion_tokens, cost_of(usage)
    shares = (("haystack", haystacks), ("1,000 messages", messages / 1000))
    shown = (
        f"{f'{tokens / of:,.0f}' if usage.has_tokens else UNKNOWN} tokens and {cost_text(cost, 1 / of)} per {name}"
        for name, of in shares
        if of
    )
    return ", ".join(shown)


def usage_line(usage: Usage) -> str:
    """Return calls, tokens and price in one line."""
    cached = f" ({usage.cached_calls:,} from the cache)" if usage.cached_calls else ""
    price = in_dollars(usage.cost_usd)
    if usage.unpriced_calls:
        unpriced = count_of(usage.unpriced_calls, "call")
        price = f"at least {price}, {unpriced} without a known price" if usage.cost_usd else "cost unknown"
    tokens = f"{usage.prompt_tokens:,} prompt and {usage.completion_tokens:,} completion tokens"
    if usage.estimated_calls:
        tokens += f" (estimated for {count_of(usage.estimated_calls, 'call')})"
    return f"{count_of(usage.calls, 'call')}{cached}, {tokens if usage.has_tokens else 'tokens unknown'}, {price}"


# Show the cost and latency of runs, as tables and in sentences.

PAID_ONCE = (
    "Preparation cost is shared: every run on the same preparation shows it in full, so do not add it up across runs."
)
COST_UNKNOWN = (
    f"{UNKNOWN} means unknown: no price, imported answers, or not recorded. A total with an unknown part is unknown."
)
FOOTPRINT = "Disk and memory use"
COST = "Cost in US dollars (reported)"
"""What only the run reports, `verify` cannot recompute: its title says so."""
LATENCY = "Latency per question in milliseconds (reported)"
FREE = "Total cost: $0 (no paid model was used)."


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
    return tabulate("", columns, (kinds(costs) | {"total": costs.total}).items())


def work_line(cost: Cost) -> str:
    """Return the calls, tokens and price of one kind of work, in one line."""
    usage = cost.usage
    return usage_line(usage) if usage else "unknown"


Named = tuple[str, GradedRun]
"""A run with its name in a table."""


def cost_table(
    summaries: Sequence[GradedRun], names: Sequence[str], cheaper_from: Sequence[int | str | None] = ()
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
        Column("total", lambda row: cost_text(row[1].costs.total)),
        Column("analysis, answers:\n1,000 questions", lambda row: _cost_of_1000(row[1]), drop=5),
    ]
    if any(summary.reasoning_tokens for summary in summaries):
        columns.append(Column("reasoning\ntokens", lambda row: count(row[1].reasoning_tokens), drop=7))
    if any(number is not None for number in cheaper_from):
        columns.append(Column("break-even,\nquestions", lambda row: from_of[row[0]], drop=6))
    paid = not _all_free(summaries)
    return tabulate(COST, columns, zip(names, summaries, strict=True) if paid else ())


def _cost_of_1000(summary: GradedRun) -> str:
    """Return the cost of asking 1,000 more questions."""
    costs, questions = summary.costs, summary.metrics.overall.n
    answering = sum_costs([costs.question_analysis, costs.answers])
    return cost_text(answering, 1000 / questions) if questions else UNKNOWN


def latency_table(summaries: Sequence[GradedRun], names: Sequence[str]) -> Table:
    """Return a row per run; no rows if nothing was timed."""
    columns: list[Column[Named]] = [Column("memory", lambda row: row[0], "text"), *latency_columns(lambda row: row[1])]
    timed = any(summary.latency.total.p50 is not None for summary in summaries)
    rows = zip(names, summaries, strict=True) if timed else ()
    return tabulate(LATENCY, columns, rows)


def latency_columns(summary_of: Callable[[Record], GradedRun]) -> list[Column[Record]]:
    """Return median and 95th percentile of recall, model calls and both; `drop` removes the least telling first."""
    return [
        Column("recall\np50", lambda row: ms(summary_of(row).latency.recall.p50), drop=2),
        Column("recall\np95", lambda row: ms(summary_of(row).latency.recall.p95), drop=5),
        Column("model\np50", lambda row: ms(summary_of(row).latency.model.p50), drop=1),
        Column("model\np95", lambda row: ms(summary_of(row).latency.model.p95), drop=4),
        Column("total\np50", lambda row: ms(summary_of(row).latency.total.p50)),
        Column("total\np95", lambda row: ms(summary_of(row).latency.total.p95), drop=3),
    ]


def both(latency: Latency) -> str:
    """Return median and 95th percentile in one cell, in milliseconds."""
    return f"{ms(latency.p50)} / {ms(latency.p95)}"


def latency_line(latency: RunLatency) -> str:
    """Return the latency of one run in one sentence."""
    if latency.total.p50 is None:
        return "Latency per question: unknown."
    named = {"recall": latency.recall, "model": latency.model, "total": latency.total}
    parts = (f"{name} p50 {ms(times.p50)}, p95 {ms(times.p95)}" for name, times in named.items())
    return f"{LATENCY}: {'; '.join(parts)}."


def footprint_table(summaries: Sequence[GradedRun], names: Sequence[str]) -> Table:
    """Return a row per run with the space its memory takes up; no rows if nothing is known."""
    columns: list[Column[Named]] = [
        Column("memory", lambda row: row[0], "text"),
        Column("histories", lambda row: row[1].footprint.histories or None),
        Column("on disk", lambda row: shown_bytes(row[1].footprint.stored_bytes)),
        Column("disk per\nhistory", lambda row: shown_bytes(_stored_of_one(row[1].footprint)), drop=2),
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
        return "Disk and memory use: unknown."
    histories = count_of(footprint.histories, "history", "histories")
    average = f", {shown_bytes(_stored_of_one(footprint))} each" if footprint.histories > 1 else ""
    stored = "unknown on disk" if footprint.stored_bytes is None else f"{shown_bytes(footprint.stored_bytes)} on disk"
    peak = footprint.resident_bytes
    own = "" if peak is None else f"; its processes used up to {shown_bytes(peak)} of memory (reported)"
    return f"Disk and memory use: {stored} ({histories}{average if footprint.stored_bytes else ''}){own}."


def _is_unknown(footprint: Footprint) -> bool:
    return footprint.stored_bytes is None and footprint.resident_bytes is None


def _stored_of_one(footprint: Footprint) -> float | None:
    stored = footprint.stored_bytes
    return None if stored is None or not footprint.histories else stored / footprint.histories


def effort_notes(summaries: Sequence[GradedRun], *, shows_costs: bool = False) -> Iterator[str]:
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
                yield f"{summary.run_id}: {unpriced} of {name} without a known price; ≥ is the cost of the others."
            if cost.estimated_calls:
                calls = f"{cost.estimated_calls:,} of {cost.calls:,} calls of {name}"
                yield f"{summary.run_id}: the server did not count the tokens of {calls}; these are our estimates."
            if cost.cached_calls:
                calls = f"{cost.cached_calls:,} of {cost.calls:,} calls of {name}"
                yield f"{summary.run_id}: {calls} came from the cache and were not charged again."
        if summary.latency_note and not is_offline(summary.model):
            yield f"{summary.run_id}: {summary.latency_note}."
        if summary.calls_per_question is not None and summary.calls_per_question > 1:
            calls = f"{summary.calls_per_question:,.1f} calls per question"
            yield f"{summary.run_id}: {calls}; prompt tokens are summed over all of them."


def _all_free(summaries: Sequence[GradedRun]) -> bool:
    totals = [summary.costs.total for summary in summaries]
    return all(total.usd == 0 and not total.cached_calls for total in totals)


# Show the model calls of external memory systems, measured at the proxy: for ingestion and for searches.

_TITLE = "Model calls made by memories (measured at the proxy)"


def memory_model_table(summaries: Sequence[GradedRun], names: Sequence[str]) -> Table:
    """Return a row per run with an external memory; no rows if there is none, or none of them calls a model.

    Args:
        summaries: summaries of the runs.
        names: names of the runs, in the same order.
    """
    rows = [(name, summary, service(summary.parts_told)) for name, summary in zip(names, summaries, strict=True)]
    outside = [(name, summary, stats) for name, summary, stats in rows if stats]
    has_calls = any(stats.get("model_calls", 1) + stats.get("embedding_calls", 0) for _, _, stats in outside)
    return tabulate(_TITLE, _COLUMNS, [_model_use(*row) for row in outside] if has_calls else [])


def service(parts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the recorded facts on the part that an external memory made; empty if the run reads none."""
    return next((stats for stats in parts.values() if "service" in stats), {})


def memory_model_notes(memory: str, stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the notes on the models that a memory called.

    Args:
        memory: name of the memory in tables.
        stats: the facts on its part, added up over the haystacks.
    """
    if "model_calls" not in stats:
        return
    by_kind = {f"{kind} by {model}": None for models in stats["models"] for kind, model in models.items()}
    if by_kind:
        yield f"{memory}: models asked at ingestion: {', '.join(by_kind)}."
    if failed := stats["failed_model_calls"]:
        yield f"{memory}: {failed:,} model calls failed at ingestion; what they would have given is missing."
    if "reported_calls" in stats:
        reported = [stats[f"reported_{kind}"] for kind in ("calls", "prompt_tokens", "completion_tokens")]
        counted = [stats[kind] for kind in ("model_calls", "prompt_tokens", "completion_tokens")]
        if reported != counted:
            wire = f"shown is what was counted on the wire: {_figures(counted)}"
            yield f"{memory} says of itself {_figures(reported)}; {wire}."


def _figures(figures: Sequence[int]) -> str:
    calls, prompt, completion = figures
    return f"{calls:,} calls, {prompt:,} prompt and {completion:,} reply tokens"


class _ModelUse(Struct, frozen=True):
    """The model calls of one memory; None: unknown."""

    name: str
    ingestion: Cost
    haystacks: int | None = None
    """Number of haystacks that were ingested."""
    thousands: float | None = None
    """Number of ingested messages, in thousands."""
    calls: int | None = None
    tokens: int | None = None
    texts: int | None = None
    questions: int | None = None
    search_calls: int = 0
    search_tokens: int = 0
    search_ms: float = 0


def _model_use(name: str, summary: GradedRun, stats: Mapping[str, Any]) -> _ModelUse:
    haystacks = stats["haystacks"] - stats["failed_haystacks"]
    thousands = stats.get("messages", 0) / 1000
    if "model_calls" not in stats or not haystacks or not thousands:
        return _ModelUse(name, summary.costs.prepare)
    searched = summary.memory_calls
    # As in the cost and in the output of `prepare`, texts that a server embeds count: they are paid for too.
    paid = any(is_remote(models.get("embeddings", "")) for models in stats["models"])
    return _ModelUse(
        name,
        summary.costs.prepare,
        haystacks,
        thousands,
        stats["model_calls"],
        stats["prompt_tokens"] + stats["completion_tokens"] + (stats["embedding_tokens"] if paid else 0),
        stats["embedding_texts"],
        summary.metrics.overall.n or 1,
        searched.calls,
        searched.prompt_tokens + searched.completion_tokens + (searched.embedding_tokens if paid else 0),
        searched.milliseconds,
    )


def _per(amount: float | None, number: float | None, form: str = ",.0f") -> str | None:
    return None if amount is None or not number else format(amount / number, form)


def _cost_per(cost: Cost, number: float | None) -> str | None:
    return cost_text(cost, 1 / number) if number else None


_COLUMNS: list[Column[_ModelUse]] = [
    Column("run", lambda use: use.name, "text"),
    Column("ingestion:\ncalls per\nhaystack", lambda use: _per(use.calls, use.haystacks, ",.1f"), drop=2),
    Column("tokens per\nhaystack", lambda use: _per(use.tokens, use.haystacks)),
    Column("tokens per\n1,000\nmessages", lambda use: _per(use.tokens, use.thousands)),
    Column("cost per\nhaystack", lambda use: _cost_per(use.ingestion, use.haystacks)),
    Column("cost per\n1,000\nmessages", lambda use: _cost_per(use.ingestion, use.thousands), drop=3),
    Column("texts\nembedded per\nhaystack", lambda use: _per(use.texts, use.haystacks), drop=5),
    Column("search:\ncalls per\nquestion", lambda use: _per(use.search_calls, use.questions, ",.1f"), drop=1),
    Column("tokens per\nquestion", lambda use: _per(use.search_tokens, use.questions)),
    Column("model ms per\nquestion", lambda use: _per(use.search_ms, use.questions), drop=4),
]
