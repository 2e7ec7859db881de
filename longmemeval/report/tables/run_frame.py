"""One row per run of a comparison, for data frames: what was run, its score, what it cost. Nothing is rounded."""

from collections.abc import Callable

from longmemeval.core.tables.table import Column, Value
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, RunFigures
from longmemeval.results.graded.graded_run import RunSummary


def run_columns(comparison: Comparison) -> list[Column[RunFigures]]:
    """Return the columns; the first run has nothing in those of differences, which are from it."""
    pairs = comparison.from_baseline

    def of(title: str, value: Callable[[RunSummary], Value]) -> Column[RunFigures]:
        return Column(title, lambda one: value(one.summary))

    def against(title: str, value: Callable[[PairResult], Value]) -> Column[RunFigures]:
        return Column(title, lambda one: value(found) if (found := pairs.get(one.summary.run_id)) else None)

    return [
        of("run", lambda one: one.run_id),
        of("memory", lambda one: one.memory),
        of("model", lambda one: one.model),
        of("embedder", lambda one: one.embedder or None),
        of("dataset", lambda one: comparison.dataset),
        of("status", lambda one: one.status),
        of("reads_gold", lambda one: one.reads_gold),
        of("control", lambda one: one.control),
        of("judge", lambda one: one.metrics.judge.id),
        of("official", lambda one: one.metrics.judge.official),
        of("metric", lambda one: one.metrics.judge.metric),
        of("questions", lambda one: one.metrics.overall.n),
        of("not_evaluated", lambda one: one.metrics.overall.not_evaluated),
        of("score", lambda one: one.metrics.overall.accuracy),
        of("low", lambda one: one.metrics.overall.interval[0]),
        of("high", lambda one: one.metrics.overall.interval[1]),
        against("difference", lambda pair: pair.difference),
        against("difference_low", lambda pair: pair.interval[0]),
        against("difference_high", lambda pair: pair.interval[1]),
        against("p", lambda pair: pair.p),
        against("p_holm", lambda pair: pair.p_holm),
        against("significant", lambda pair: pair.significant),
        Column("evidence_recall", lambda one: one.evidence_recall),
        of("prompt_tokens", lambda one: one.mean_prompt_tokens),
        of("cost_usd", lambda one: one.costs.total.usd),
        of("prepare_usd", lambda one: one.costs.prepare.usd),
        of("latency_p50_ms", lambda one: one.latency.total.p50),
        of("latency_p95_ms", lambda one: one.latency.total.p95),
    ]
