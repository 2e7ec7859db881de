"""Chart distributions: the latencies of answers, and correctness by the best recall score."""

from collections.abc import Sequence
from math import log10
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import UNKNOWN, count_of, milliseconds, percent
from longmemeval.measures.abstention import Calibration, ScoreBin
from longmemeval.report.charts.charts import Chart, percent_axis
from longmemeval.report.charts.palette import Shown
from longmemeval.report.charts.svg import INK, MUTED, drawn, run_colour
from longmemeval.statistics.intervals import percentile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_MS = 0.1
"""The shortest latency drawn, in milliseconds; shorter ones are raised to it as a logarithmic scale has no zero."""
_BINS = 48


class Latencies(Struct, frozen=True):
    """The latencies of one run's answers."""

    run: Shown
    milliseconds: tuple[float, ...]
    """The latencies of the answers, at least one."""


def latency_chart(runs: Sequence[Latencies]) -> Chart:
    """Return one ridge per run on a logarithmic scale, with marks at the median and the 95th percentile."""
    logs = [[log10(max(latency, _LEAST_MS)) for latency in run.milliseconds] for run in runs]
    low = min(map(min, logs)) - 0.15
    high = max(map(max, logs)) + 0.15
    width = (high - low) / _BINS

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        for row, (run, values) in enumerate(zip(runs, logs, strict=True)):
            counts = [0] * _BINS
            for value in values:
                counts[min(int((value - low) / width), _BINS - 1)] += 1
            heights = [row - 0.82 * count / max(counts) for count in counts]
            edges = [10 ** (low + width * number) for number in range(_BINS)]
            colour = run_colour(run.run.look)
            axes.fill_between(edges, heights, row, step="post", color=colour, alpha=0.45, linewidth=0)
            for rank, line in ((50, "-"), (95, ":")):
                at = max(percentile(run.milliseconds, rank) or 0.0, _LEAST_MS)
                axes.plot((at, at), (row, row - 0.86), color=INK, linewidth=1.2, linestyle=line)
        axes.set_xscale("log")
        axes.set_xlim(10**low, 10**high)
        axes.set_ylim(len(runs) - 0.9, -1)
        axes.set_yticks(range(len(runs)), [run.run.name for run in runs], va="bottom")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(lambda value, _: milliseconds(value))
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("time per question, recall and model")
        axes.grid(axis="x")

    description = (
        "Time per answered question: recall, and model calls with retries and waiting. A row per run, each drawn to "
        "its own height. Solid line: median; dotted line: 95th percentile."
    )
    svg = drawn("latency", 7.6, 0.75 + 0.42 * len(runs), draw)
    columns: list[Column[Latencies]] = [
        Column("run", lambda run: run.run.name, "text"),
        Column("answers", lambda run: len(run.milliseconds)),
        *(_percentile(rank) for rank in (5, 25, 50, 75, 95)),
    ]
    return Chart("latency", "Latency", description, svg, tabulate("", columns, runs))


def _percentile(rank: int) -> Column[Latencies]:
    title = "median" if rank == 50 else f"{rank} %"
    return Column(title, lambda run: milliseconds(percentile(run.milliseconds, rank) or 0.0))


def calibration_chart(place: int, run: Shown, metric: str, calibration: Calibration) -> Chart:
    """Return a chart of the shares of answerable and of correctly answered questions, by the best recall score.

    Args:
        place: index of the run, from 0.
        run: name and look of the run.
        metric: name of the judge's mean: `accuracy`, or e.g. `F1` for scores.
        calibration: a calibration with at least one bin.
    """
    bins = calibration.curve
    at = range(1, len(bins) + 1)

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        axes.plot(
            at,
            [group.accuracy for group in bins],
            color=run_colour(run.look),
            marker=run.look.marker,
            markersize=4,
            linewidth=1.5,
        )
        axes.plot(at, [group.answerable for group in bins], color=MUTED, marker="s", markersize=3.5, linewidth=1.2,
                  linestyle="--")  # fmt: skip
        if calibration.threshold is not None:
            below = sum(group.lowest < calibration.threshold for group in bins)
            axes.axvline(below + 0.5, color=INK, linewidth=1, linestyle=":")
        percent_axis(axes, "y", [share for group in bins for share in (group.accuracy, group.answerable)])
        axes.set_xlim(0.4, len(bins) + 0.6)
        axes.set_xticks(list(at), [f"{group.lowest:.2g}" for group in bins])
        axes.set_xlabel("best recall score, from")
        axes.grid(axis="y")

    right = "share judged right" if metric == "accuracy" else f"mean {metric}"
    columns: list[Column[ScoreBin]] = [
        Column("best recall score", lambda group: f"{group.lowest:.3g} to {group.highest:.3g}", "text"),
        Column("questions", lambda group: group.n),
        Column("answerable", lambda group: percent(group.answerable)),
        Column(metric, lambda group: percent(group.accuracy)),
    ]
    return Chart(
        name=f"calibration-{place + 1}",
        title=run.name,
        description=f"Solid: {right}. Dashed: share that has an answer. {_threshold_words(calibration, metric)}",
        svg=drawn(f"calibration-{place + 1}", 4.6, 2.7, draw),
        figures=tabulate("", columns, bins),
    )


def _threshold_words(calibration: Calibration, metric: str) -> str:
    unscored = (
        f" {count_of(calibration.unscored, 'question has', 'questions have')} no score." if calibration.unscored else ""
    )
    if calibration.threshold is None or calibration.held_out is None:
        return f"No threshold could be chosen and tried.{unscored}"
    held_out = calibration.held_out
    f1 = held_out.abstaining.f1
    gain = ""
    if not held_out.pays:
        gain = ", but this judge gives declining nothing"
    elif held_out.accuracy is not None:
        without = f"(without it {percent(held_out.judged_accuracy)})"
        gain = f" and gives {metric} {percent(held_out.accuracy)} {without}"
    return (
        f"Dotted: abstaining below {calibration.threshold:.3g} was best on {calibration.chosen_on} questions; on the "
        f"other {held_out.n} it finds the unanswerable ones with an F1 of "
        f"{UNKNOWN if f1 is None else f'{f1:.2f}'}{gain}.{unscored}"
    )
