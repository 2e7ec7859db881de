"""Chart memories under several token budgets: their score and evidence recall against the tokens they show."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count, percent
from longmemeval.pipeline.compare.comparison import BudgetCurve, Comparison, RunFigures, budget_curves
from longmemeval.report.charts.charts import Chart, named_lines
from longmemeval.report.charts.palette import Shown
from longmemeval.report.charts.svg import drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DESCRIPTION = (
    "Up is better, left is less text for the model. A line joins the budgets of one memory; where lines are compared, "
    "they are compared at equal tokens. Other runs stand as single marks."
)


def budget_charts(comparison: Comparison, shown: Sequence[Shown]) -> list[Chart]:
    """Return charts of the score and the evidence recall against tokens; empty if no memory has several budgets."""
    if not (curves := budget_curves(comparison.rows)):
        return []
    metric = comparison.metric
    recalls = {run.provenance for run in comparison.rows if run.evidence_recall is not None}
    by = f", by {' or '.join(sorted(recalls))}" if recalls - {"message"} else ""
    scores, recall = (lambda run: run.summary.metrics.overall.accuracy), (lambda run: run.evidence_recall)
    drawn_charts = [
        _chart("budgets", f"{metric.capitalize()} over budgets", metric, comparison, curves, shown, scores),
        _chart("budget-recall", "Recall over budgets", f"evidence recall{by}", comparison, curves, shown, recall),
    ]
    return [chart for chart in drawn_charts if chart]


def _chart(
    name: str,
    title: str,
    axis: str,
    comparison: Comparison,
    curves: Sequence[BudgetCurve],
    shown: Sequence[Shown],
    value_of: Callable[[RunFigures], float | None],
) -> Chart | None:
    runs, joined = comparison.rows, {place for curve in curves for place in curve.runs}
    single = [
        BudgetCurve(runs[place].summary.memory, (place,), ()) for place in range(len(runs)) if place not in joined
    ]
    lines = []
    for curve in (*curves, *single):
        points = [(runs[place].summary.mean_prompt_tokens, value_of(runs[place]), place) for place in curve.runs]
        known = [(tokens, value, place) for tokens, value, place in points if tokens and value is not None]
        if known:
            lines.append((shown[curve.runs[0]].look, curve.name, sorted(known)))
    if not any(len(known) > 1 for _, _, known in lines):
        return None

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        named_lines(axes, [(look, label, [(x, y) for x, y, _ in known]) for look, label, known in lines])
        axes.set_xticks(sorted({budget for curve in curves for budget in curve.budgets}))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("prompt tokens per question")
        axes.set_ylabel(axis)
        axes.grid()

    columns: list[Column[tuple[str, float, float, int]]] = [
        Column("memory", lambda row: row[0], "text"),
        Column("run", lambda row: shown[row[3]].name, "text"),
        Column("budget", lambda row: runs[row[3]].budget or None),
        Column("prompt tokens", lambda row: count(row[1])),
        Column(axis, lambda row: percent(row[2])),
    ]
    figures = tabulate("", columns, [(label, *point) for _, label, known in lines for point in known])
    return Chart(name, title, _DESCRIPTION, drawn(name, 7.6, 3.4, draw), figures)
