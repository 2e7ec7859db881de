"""Draw the result of `probe`: a row for each memory, a bar for each probe."""

from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Mean
from longmemeval.pipeline.probe.probe import Probed, ProbeReport
from longmemeval.report.charts.svg import (
    GRID,
    INK,
    drawn,
    looks_of,
    need_report_libraries,
    run_colour,
)
from longmemeval.report.tables.probe import passed, probe_table, row_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from longmemeval.report.charts.charts import Chart

_BAR, _ROW_INCHES = 0.84, 0.34
"""Width of a full bar, if the next begins at 1; height of a row in inches."""


def check_drawable(output: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is paid for.

    Raises:
        HarnessError: the file is not an SVG, or the extra `report` is not installed.
    """
    if output.suffix != ".svg":
        raise HarnessError("The chart must be an SVG file", where=str(output), fix="Name a file that ends in .svg")
    need_report_libraries("A picture")


def probe_chart(report: ProbeReport) -> Chart:
    """Return the table as bars: a full bar if every question was passed, a dash instead if unknown."""
    rows = [(probed, shares(probed)) for probed in report.memories]
    names = list(dict.fromkeys(name for _, by_probe in rows for name in by_probe))
    places, kinds = range(len(rows)), [(probed.control is not None, False) for probed, _ in rows]
    looks = looks_of([*map(str, places)], kinds, [probed.memory for probed, _ in rows])

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        for place, (_, by_probe) in enumerate(rows):
            colour = run_colour(looks[place])
            for column, share in enumerate(map(by_probe.get, names)):
                if share is not None and share.mean is not None:
                    axes.barh(place, _BAR, left=column, height=0.62, color=GRID, linewidth=0)
                    axes.barh(place, _BAR * share.mean, left=column, height=0.62, color=colour, linewidth=0)
                axes.text(column + _BAR / 2, place, passed(share), ha="center", va="center", fontsize=7.5, color=INK)
        axes.set_yticks(range(len(rows)), [row_name(probed) for probed, _ in rows])
        axes.set_xticks([column + _BAR / 2 for column in range(len(names))], [_two_lines(name) for name in names])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set_xlim(-0.08, len(names))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        for spine in axes.spines.values():
            spine.set_visible(False)

    description = (
        "Questions on synthetic user histories that each memory passes, by probe. A full bar: all of "
        "them; a dash: unknown. The lower bound cannot pass, the upper bound must."
    )
    svg = drawn("probes", 7.6, 0.6 + _ROW_INCHES * len(rows), draw)
    return Chart("probes", f"Probes, seed {report.seed}", description, svg, probe_table(report))


def shares(probed: Probed) -> dict[str, Mean | None]:
    """Return the share of each probe that a memory passes."""
    lifecycle = probed.lifecycle
    return {**probed.probes, "deletion": lifecycle.deletion, "read after write": lifecycle.read_after_write}


def _two_lines(name: str) -> str:
    return "\n".join(name.rsplit(" ", 1)) if name.count(" ") > 1 else name.replace(" ", "\n")
