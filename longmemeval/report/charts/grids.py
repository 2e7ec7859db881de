"""Draw runs that vary in two settings as a heat map: a cell for each combination, the stronger the higher its score."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from longmemeval.core.text.figures import percent
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.compare.naming import Grid
from longmemeval.report.charts.charts import Chart
from longmemeval.report.charts.svg import INK, Shown, drawn, run_colour
from longmemeval.report.tables.comparison import grid_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST, _MOST = 0.08, 0.55
"""Opacity of the lowest and the highest score: text stays readable on both."""
_CELL, _ROW = 1.15, 0.42
"""Width and height of a cell in inches."""
_DESCRIPTION = (
    "A stronger colour is a higher score, within this grid; ▲ and ▼ mark significant differences "
    "from the baseline. Neighbouring cells may differ by chance: their intervals are in the table of runs."
)


def grid_charts(comparison: Comparison, shown: Sequence[Shown]) -> list[Chart]:
    """Return a heat map for each grid of the comparison."""
    looks = {row.run_id: one for row, one in zip(comparison.rows, shown, strict=True)}
    return [_chart(place, comparison, grid, looks[grid.cells[0][0]]) for place, grid in enumerate(comparison.grids)]


def _chart(place: int, comparison: Comparison, grid: Grid, first: Shown) -> Chart:
    rows = {row.run_id: row for row in comparison.rows}
    scores = {run_id: rows[run_id].summary.metrics.overall.accuracy for line in grid.cells for run_id in line}
    low, high = min(scores.values()), max(scores.values())

    def draw(figure: "Figure") -> None:
        from matplotlib.patches import Rectangle

        axes = figure.add_subplot()
        for y, line in enumerate(grid.cells):
            for x, run_id in enumerate(line):
                share = (scores[run_id] - low) / (high - low) if high > low else 0.5
                opacity = _LEAST + (_MOST - _LEAST) * share
                colour = run_colour(first.look)
                axes.add_patch(Rectangle((x, y), 0.97, 0.94, facecolor=colour, alpha=opacity, linewidth=0))
                text = f"{percent(scores[run_id])} {rows[run_id].marks}".strip()
                axes.text(x + 0.485, y + 0.47, text, ha="center", va="center", fontsize=8.5, color=INK)
        axes.set_xticks([x + 0.485 for x in range(len(grid.across_values))], grid.across_values)
        axes.set_yticks([y + 0.47 for y in range(len(grid.down_values))], grid.down_values)
        axes.set_xlabel(grid.across)
        axes.set_ylabel(grid.down)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0)
        axes.set_xlim(0, len(grid.across_values))
        axes.set_ylim(len(grid.down_values), 0)
        for spine in axes.spines.values():
            spine.set_visible(False)

    name = f"grid-{place}"
    size = (1.6 + _CELL * len(grid.across_values), 0.8 + _ROW * len(grid.down_values))
    title = f"{comparison.metric.capitalize()}: {grid.title}"
    return Chart(name, title, _DESCRIPTION, drawn(name, *size, draw), grid_table(comparison, grid).with_title(""))
