"""Build one row per run of a comparison, for data frames: setup, score and cost. Nothing is rounded."""

from collections.abc import Callable

from longmemeval.core.tables.table import Column, Value
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, RunFigures
from longmemeval.results.graded.graded_run import RunSummary


def run_columns(comparison: Comparison) -> list[Column[RunFigures]]:
    """Return the columns; those of differences from the first run are empty for that run itself."""
    pairs = comparison.from_baseline

    def column(title: str, value: Callable[[RunSummary], Value]) -> Column[RunFigures]:
        return Column(title, lambda run: value(run.summary))

    def difference(title: str, value: Callable[[PairResult], Value]) -> Column[RunFigures]:
        return Column(title, lambda run: value(pair) if (pair := pairs.get(run.summary.run_id)) else None)

    return [
        column("run", lambda summary: summary.run_id),
        column("memory", lambda summary: summary.memory),
        column("model", lambda summary: summary.model),
        column("embedder", lambda summary: summary.embedder or None),
        column("dataset", lambda summary: comparison.dataset),
        column("status", lambda summary: summary.status),
        column("reads_gold", lambda summary: summary.reads_gold),
        column("control", lambda summary: summary.control),
        column("judge", lambda summary: summary.metrics.judge.id),
        column("official", lambda summary: summary.metrics.judge.official),
        column("metric", lambda summary: summary.metrics.judge.metric),
        column("questions", lambda summary: summary.metrics.overall.n),
        column("not_evaluated", lambda summary: summary.metrics.overall.not_evaluated),
        column("score", lambda summary: summary.metrics.overall.accuracy),
        column("low", lambda summary: summary.metrics.overall.interval[0]),
        column("high", lambda summary: summary.metrics.overall.interval[1]),
        difference("difference", lambda pair: pair.difference),
        difference("difference_low", lambda pair: pair.interval[0]),
        difference("difference_high", lambda pair: pair.interval[1]),
        difference("p", lambda pair: pair.p),
        difference("p_holm", lambda pair: pair.p_holm),
        difference("significant", lambda pair: pair.significant),
        Column("evidence_recall", lambda run: run.evidence_recall),
        column("prompt_tokens", lambda summary: summary.mean_prompt_tokens),
        column("cost_usd", lambda summary: summary.costs.total.usd),
        column("prepare_usd", lambda summary: summary.costs.prepare.usd),
        column("latency_p50_ms", lambda summary: summary.latency.total.p50),
        column("latency_p95_ms", lambda summary: summary.latency.total.p95),
    ]
