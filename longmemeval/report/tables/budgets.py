"""Compare memories under several token budgets: the score, evidence recall and prompt tokens under each."""

from statistics import fmean

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, count, percent
from longmemeval.pipeline.compare.columns import RUN_COLUMNS
from longmemeval.pipeline.compare.comparison import BudgetCurve, Comparison, budget_curves


def budget_table(comparison: Comparison) -> Table:
    """Return a row per memory and a column per budget; no rows if no memory has several budgets."""
    curves = budget_curves(comparison.rows)
    recall = next(column for column in RUN_COLUMNS if column.id == "evidence")
    budgets = sorted({budget for curve in curves for budget in curve.budgets})

    def cell(curve: BudgetCurve, budget: int) -> str:
        runs = [run for place in curve.runs if (run := comparison.rows[place]).budget == budget]
        if not runs:
            return UNKNOWN
        tokens, score = runs[0].summary.mean_prompt_tokens, fmean(run.summary.metrics.overall.accuracy for run in runs)
        return f"{percent(score)}\n{recall.text(comparison, runs[0])} found\n{count(tokens)} tokens"

    def column(budget: int) -> Column[BudgetCurve]:
        return Column(f"{budget:,}", lambda curve: cell(curve, budget))

    metric = comparison.metric
    columns: list[Column[BudgetCurve]] = [Column("memory", lambda curve: curve.name, "text"), *map(column, budgets)]
    return tabulate(f"Over budgets of tokens: {metric}, evidence recall, prompt tokens", columns, curves)
