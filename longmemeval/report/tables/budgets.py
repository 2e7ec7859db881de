"""Memories under several budgets of tokens: what they score, find and show under each."""

from collections.abc import Callable
from statistics import fmean

from longmemeval.pipeline.compare.comparison import Comparison, RunFigures
from longmemeval.pipeline.compare.tokens import BudgetCurve, budget_curves
from longmemeval.report.tables.cells import UNKNOWN, percent
from longmemeval.report.tables.table import Table


def budget_table(comparison: Comparison, recall: Callable[[RunFigures], str]) -> Table:
    """Return a row per memory and a column per budget; without rows where no memory has several.

    Args:
        comparison: of the runs.
        recall: returns the evidence recall of a run as it is shown.
    """
    curves = budget_curves(comparison.runs)
    budgets = sorted({budget for curve in curves for budget in curve.budgets})

    def cell(curve: BudgetCurve, budget: int) -> str:
        runs = [run for place in curve.runs if (run := comparison.runs[place]).budget == budget]
        if not runs:
            return "-"
        tokens, score = runs[0].summary.mean_prompt_tokens, fmean(run.summary.metrics.overall.accuracy for run in runs)
        shown = UNKNOWN if tokens is None else f"{tokens:,.0f}"
        return f"{percent(score)}\n{recall(runs[0])} found\n{shown} tokens"

    metric = comparison.runs[0].summary.metrics.judge.metric
    rows = [[curve.name, *(cell(curve, budget) for budget in budgets)] for curve in curves]
    title = f"Over budgets of tokens: {metric}, evidence recall, prompt tokens"
    return Table(title, ["memory", *(f"{budget:,}" for budget in budgets)], rows, frozenset({0}))
