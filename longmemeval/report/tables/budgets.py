"""Compare memories under several token budgets: the score, evidence recall and prompt tokens under each."""

from collections.abc import Callable
from statistics import fmean

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, count, percent
from longmemeval.pipeline.compare.comparison import Comparison, RunFigures
from longmemeval.pipeline.compare.tokens import BudgetCurve, budget_curves


def budget_table(comparison: Comparison, recall: Callable[[RunFigures], str]) -> Table:
    """Return a row per memory and a column per budget; no rows if no memory has several budgets.

    Args:
        recall: function that formats the evidence recall of a run.
    """
    curves = budget_curves(comparison.runs)
    budgets = sorted({budget for curve in curves for budget in curve.budgets})

    def cell(curve: BudgetCurve, budget: int) -> str:
        runs = [run for place in curve.runs if (run := comparison.runs[place]).budget == budget]
        if not runs:
            return UNKNOWN
        tokens, score = runs[0].summary.mean_prompt_tokens, fmean(run.summary.metrics.overall.accuracy for run in runs)
        return f"{percent(score)}\n{recall(runs[0])} found\n{count(tokens)} tokens"

    def column(budget: int) -> Column[BudgetCurve]:
        return Column(f"{budget:,}", lambda curve: cell(curve, budget))

    metric = comparison.runs[0].summary.metrics.judge.metric
    columns: list[Column[BudgetCurve]] = [Column("memory", lambda curve: curve.name, "text"), *map(column, budgets)]
    return tabulate(f"Over budgets of tokens: {metric}, evidence recall, prompt tokens", columns, curves)
