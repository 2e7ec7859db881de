"""The charts of the report. Each takes plain figures and gives a drawing with the same figures as a table beside it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import bounds, percent
from longmemeval.pipeline.compare.pareto import ParetoPoint, pareto_front
from longmemeval.report.charts.svg import GRID, INK, MUTED, SURFACE, drawn, run_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE, _HALF = 7.6, 4.6
_LABEL = 36
"""Longest label beside bars, in characters."""
_MARKERS = "osD^vPX*"


class Chart(Struct, frozen=True):
    """A drawing, what it shows in words, and its figures."""

    name: str
    title: str
    description: str
    """For those who do not see the drawing, and for everybody how it is read."""
    svg: str
    figures: Table


class Bar(Struct, frozen=True):
    """One bar of one run."""

    run: int
    """From 0; decides the colour."""
    letter: str
    """The run's letter; empty where the group's name says which run it is."""
    value: float
    text: str
    """The value as it is printed."""
    interval: tuple[float, float] | None = None


class BarGroup(Struct, frozen=True):
    """The bars of all runs for one type, ability or stage."""

    label: str
    bars: tuple[Bar, ...]


def bar_chart(
    name: str, title: str, description: str, groups: Sequence[BarGroup], *, fractions: bool, axis: str
) -> Chart:
    """Horizontal bars in groups, with intervals where they have some; each value is printed at the right edge.

    Args:
        name: distinct among the charts of a page.
        title: heading.
        description: how it is read.
        groups: from top to bottom.
        fractions: whether values are fractions, drawn from 0 to 100 %; else counts.
        axis: what the values are.
    """
    thickness, space = (0.2, 0.16) if max(len(group.bars) for group in groups) > 1 else (0.24, 0.1)
    places: list[float] = []
    centres: list[float] = []
    at = 0.0
    for group in groups:
        places += [at + thickness * number for number in range(len(group.bars))]
        centres.append(at + thickness * (len(group.bars) - 1) / 2)
        at += thickness * len(group.bars) + space
    bars = [bar for group in groups for bar in group.bars]

    def draw(figure: "Figure") -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for place, bar in zip(places, bars, strict=True):
            axes.barh(place, bar.value, height=thickness * 0.72, color=run_colour(bar.run), alpha=0.85, linewidth=0)
            if bar.interval:
                axes.plot(bar.interval, (place, place), color=INK, linewidth=1.1, solid_capstyle="butt")
            if bar.letter:
                axes.text(-0.008, place, bar.letter, transform=axes.get_yaxis_transform(), ha="right", va="center",
                          fontsize=7.5, color=run_colour(bar.run), fontweight="bold")  # fmt: skip
            axes.text(1.1, place, bar.text, transform=axes.get_yaxis_transform(), ha="right", va="center",
                      fontsize=8, color=INK)  # fmt: skip
        axes.set_yticks(centres, [_short(group.label) for group in groups])
        axes.tick_params(axis="y", length=0, pad=16 if any(bar.letter for bar in bars) else 6)
        axes.set_ylim(at - space / 2 - thickness / 2, -thickness / 2 - space / 2)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(axis)
        if fractions:
            percent_axis(axes, "x")
        else:
            axes.set_xlim(0, max(1.0, *(bar.value for bar in bars)) * 1.02)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="x")

    columns: list[Column[tuple[BarGroup, Bar]]] = [
        Column("", lambda row: row[0].label, "text"),
        Column("run", lambda row: row[1].letter, "text"),
        Column(axis, lambda row: row[1].text),
        Column("95 % interval", lambda row: bounds(row[1].interval) if row[1].interval else ""),
    ]
    figures = tabulate("", columns, [(group, bar) for group in groups for bar in group.bars])
    return Chart(name, title, description, drawn(name, _WIDE, 0.62 + at, draw), figures)


class Point(Struct, frozen=True):
    """One run: what it scored and what that took."""

    run: int
    letter: str
    label: str
    x: float
    x_text: str
    score: float
    score_text: str
    reads_gold: bool
    """Whether it is a ceiling that no memory system can be measured by: never on the front."""


def front_of(points: Sequence[Point]) -> list[Point]:
    """Return the points on the Pareto front of score against `x`, ceilings aside; cheapest first."""
    memories = [ParetoPoint(one.letter, one.score, cost_usd=one.x) for one in points if not one.reads_gold]
    letters = pareto_front(memories)
    return sorted((one for one in points if one.letter in letters), key=lambda one: (one.x, one.letter))


def tradeoff_chart(name: str, title: str, points: Sequence[Point], *, x_axis: str, score_axis: str) -> Chart:
    """Score against what it took; the Pareto front is a line through filled points, the others are hollow."""
    front = front_of(points)
    logarithmic = min(one.x for one in points) > 0 and max(one.x for one in points) > 20 * min(one.x for one in points)

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        if logarithmic:
            axes.set_xscale("log")
        axes.plot([one.x for one in front], [one.score for one in front], color=MUTED, linewidth=1, linestyle="--")
        for point in points:
            colour = run_colour(point.run)
            marker = _MARKERS[point.run % len(_MARKERS)]
            face = colour if point in front else SURFACE
            axes.plot([point.x], [point.score], marker=marker, markersize=7, markerfacecolor=face,
                      markeredgecolor=colour, markeredgewidth=1.4, linestyle="none", zorder=3)  # fmt: skip
            axes.annotate(point.letter, (point.x, point.score), (6, 5), textcoords="offset points", fontsize=8,
                          fontweight="bold", color=colour)  # fmt: skip
        percent_axis(axes, "y")
        if not logarithmic:
            axes.set_xlim(0, max(one.x for one in points) * 1.1 or 1)
        axes.xaxis.set_major_formatter("{x:g}" if max(one.x for one in points) < 10 else "{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel(x_axis)
        axes.set_ylabel(score_axis)
        axes.grid()

    ceilings = [one.letter for one in points if one.reads_gold]
    description = (
        "Up is better, left is cheaper. The dashed line joins the runs that no other run beats on both (Pareto front, "
        f"filled marks): {', '.join(one.letter for one in front) or 'none'}."
        + (f" {', '.join(ceilings)} reads the gold evidence and is left out of it." if ceilings else "")
    )
    columns: list[Column[Point]] = [
        Column("run", lambda one: one.letter, "text"),
        Column("memory", lambda one: one.label, "text"),
        Column(x_axis, lambda one: one.x_text),
        Column(score_axis, lambda one: one.score_text),
        Column("on the front", lambda one: "yes" if one in front else ""),
    ]
    figures = tabulate("", columns, points)
    return Chart(name, title, description, drawn(name, _HALF, 3.1, draw), figures)


class Curve(Struct, frozen=True):
    """One run's shares over k."""

    run: int
    letter: str
    k: tuple[int, ...]
    shares: tuple[float, ...]


def recall_chart(curves: Sequence[Curve]) -> Chart:
    """Mean share of the evidence among the first k messages of the prompt."""

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        ends = spread_apart([curve.shares[-1] for curve in curves], 0.05)
        right = max(curve.k[-1] for curve in curves)
        for curve, end in zip(curves, ends, strict=True):
            colour = run_colour(curve.run)
            axes.plot(curve.k, curve.shares, color=colour, linewidth=1.5, marker=_MARKERS[curve.run % len(_MARKERS)],
                      markersize=3.5)  # fmt: skip
            axes.annotate(curve.letter, (curve.k[-1], curve.shares[-1]), (right * 1.12, end), fontsize=8,
                          fontweight="bold", color=colour, va="center", annotation_clip=False,
                          arrowprops={"arrowstyle": "-", "color": GRID, "linewidth": 0.6})  # fmt: skip
        percent_axis(axes, "y")
        axes.set_xlim(0.9, right * 1.08)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("messages k, in the order of the prompt")
        axes.set_ylabel("evidence found")
        axes.grid()

    cutoffs = sorted({k for curve in curves for k in curve.k})
    description = (
        "Mean share of a question's labelled evidence among the first k messages that reached the prompt. Prompts show "
        "messages in the order of time, not of rank: this is where in the prompt evidence is, and how much of it "
        "got there at all. The command longmemeval retrieval measures the ranking itself."
    )
    svg = drawn("recall", _WIDE, 3.2, draw)
    columns: list[Column[int]] = [Column("k", lambda k: k), *map(_shares_of, curves)]
    figures = tabulate("", columns, cutoffs)
    return Chart("recall", "Evidence among the first k messages", description, svg, figures)


def _shares_of(curve: Curve) -> Column[int]:
    shares = dict(zip(curve.k, curve.shares, strict=True))
    return Column(curve.letter, lambda k: percent(shares[k]) if k in shares else "")


def _short(label: str) -> str:
    """Return a label that leaves room for the bars; the table of figures has all of it."""
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"


def percent_axis(axes: "Axes", which: str) -> None:
    """Return a fixed scale from 0 to 100 %: differences look as large as they are."""
    from matplotlib.ticker import PercentFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    if which == "x":
        axes.set_xlim(0, 1.0)
    else:
        axes.set_ylim(0, 1.04)
        axes.tick_params(axis="y", labelcolor=MUTED)


def spread_apart(values: Sequence[float], gap: float) -> list[float]:
    """Return the values moved upwards where they would be nearer than `gap`; in their own order."""
    moved = [0.0] * len(values)
    last = float("-inf")
    for index in sorted(range(len(values)), key=values.__getitem__):
        last = moved[index] = max(values[index], last + gap)
    return moved
