"""Draw the charts of the report. Each takes plain figures and returns a drawing with a table of the same figures."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.tables.picture import Picture
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count, count_of, milliseconds, percent
from longmemeval.measures.abstention import Calibration, ScoreBin
from longmemeval.pipeline.compare.comparison import (
    BudgetCurve,
    ComparedRun,
    Comparison,
    ParetoPoint,
    budget_curves,
    pareto_front,
)
from longmemeval.report.charts.svg import (
    GRID,
    INK,
    MUTED,
    SURFACE,
    Look,
    Shown,
    alone,
    drawn,
    run_colour,
    run_face,
)
from longmemeval.report.page.templates import page_file
from longmemeval.statistics.intervals import percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDE = 5.2
"""Width of a chart in inches: text is legible where it is as wide as a phone, and where two are side by side."""
_HALF = 4.6
_LABEL = 36
"""The longest label beside bars, in characters."""


_LEADER = {"arrowstyle": "-", "color": GRID, "linewidth": 0.6}
"""The line from a name to the end of its line."""


class Chart(Struct, frozen=True):
    """A drawing, what it shows in words, and its figures."""

    name: str
    title: str
    description: str
    """How to read the drawing, also for readers who cannot see it."""
    svg: str
    figures: Table

    def alone(self) -> Picture:
        """Return the drawing as a separate picture, in the colours of the page."""
        return Picture(self.name, self.title, alone(self.svg, self.title, page_file("palette.css")))


class Value(Struct, frozen=True):
    """One figure of one run."""

    run: Shown
    value: float
    text: str
    """The value as it is printed."""
    interval: tuple[float, float] | None = None


class Group(Struct, frozen=True):
    """The figures of all runs for one type, ability or stage."""

    label: str
    values: tuple[Value, ...]
    ceiling: float | None = None
    """The score that a perfect memory gets, if an audit of the labels is right."""


def dot_chart(name: str, title: str, groups: Sequence[Group], *, axis: str, baseline: float | None = None) -> Chart:
    """Return scores between 0 and 1 as marks on their intervals; if each group has one run, with the value beside.

    Args:
        name: a name that is unique among the charts of a page.
        groups: the groups from top to bottom.
        axis: label of the axis of values.
        baseline: the score to mark with a line; None: no line.
    """
    single = max(len(group.values) for group in groups) == 1
    values = [value for group in groups for value in group.values]
    rows = _Rows.of(groups, 0.24 if single else 0.15, 0.0 if single else 0.2)

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        if baseline is not None:
            axes.axvline(baseline, color=MUTED, linewidth=1, linestyle="--")
        for place, value in zip(rows.places, values, strict=True):
            colour = run_colour(value.run.look)
            if value.interval:
                axes.plot(value.interval, (place, place), color=colour, linewidth=1.6, solid_capstyle="butt")
            axes.plot([value.value], [place], marker=value.run.look.marker, markersize=6.5 if single else 5,
                      color=colour, markerfacecolor=run_face(value.run.look), linestyle="none")  # fmt: skip
            if single:
                axes.text(1.01, place, value.text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        half = rows.thickness / 2
        for last, group in zip(accumulate(len(group.values) for group in groups), groups, strict=True):
            if group.ceiling is not None:
                ends = rows.places[last - len(group.values)] - half, rows.places[last - 1] + half
                axes.plot((group.ceiling, group.ceiling), ends, color=MUTED, linewidth=1.2, linestyle=":")
        percent_axis(axes, "x", [end for value in values for end in (value.value, *(value.interval or ()))])
        rows.finish(axes, groups, axis)

    description = "Marks: mean over all selected questions, ungraded ones count as wrong. Lines: 95% CIs."
    description += " Dashed: the baseline." if baseline is not None else ""
    bounded = any(group.ceiling is not None for group in groups)
    description += " Dotted: the ceiling, what a perfect memory can get with disputed labels." if bounded else ""
    return Chart(name, title, description, drawn(name, WIDE, 0.62 + rows.height, draw), _figures(groups, axis))


def bar_chart(name: str, title: str, description: str, groups: Sequence[Group], *, axis: str) -> Chart:
    """Return counts as horizontal bars from zero, in groups, each with its count at the end."""
    values = [value for group in groups for value in group.values]
    rows = _Rows.of(groups, 0.17, 0.16)

    def draw(figure: "Figure") -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for place, value in zip(rows.places, values, strict=True):
            look = value.run.look
            axes.barh(place, value.value, height=rows.thickness * 0.8, color=run_colour(look), linewidth=0,
                      hatch="////" if look.hatched else "", edgecolor=SURFACE)  # fmt: skip
            axes.annotate(value.text, (value.value, place), (3, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_xlim(0, max(1.0, *(value.value for value in values)) * 1.06)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        rows.finish(axes, groups, axis)

    return Chart(name, title, description, drawn(name, WIDE, 0.62 + rows.height, draw), _figures(groups, axis))


class _Rows(Struct, frozen=True):
    """The positions of the rows of groups from the top, in inches."""

    places: tuple[float, ...]
    centres: tuple[float, ...]
    height: float
    thickness: float
    space: float

    @classmethod
    def of(cls, groups: Sequence[Group], thickness: float, space: float) -> "_Rows":
        places: list[float] = []
        centres: list[float] = []
        at = 0.0
        for group in groups:
            size = thickness * len(group.values)
            places += [at + thickness * number for number in range(len(group.values))]
            centres.append(at + (size - thickness) / 2)
            at += size + space
        return cls(tuple(places), tuple(centres), at, thickness, space)

    def finish(self, axes: "Axes", groups: Sequence[Group], axis: str) -> None:
        # A group of several rows has room for two lines.
        labels = [
            _short(group.label).replace(", n = ", "\nn = ", 1 if len(group.values) > 1 else 0) for group in groups
        ]
        axes.set_yticks(self.centres, labels)
        axes.tick_params(axis="y", length=0, pad=6)
        for centre, group in zip(self.centres[1:] if self.space else (), groups[1:], strict=False):
            edge = centre - self.thickness * len(group.values) / 2 - self.space / 2
            axes.axhline(edge, color=GRID, linewidth=0.6)
        axes.set_ylim(self.height - self.space / 2 - self.thickness / 2, -self.thickness / 2 - self.space / 2)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(axis)
        axes.grid(axis="x")


def _figures(groups: Sequence[Group], axis: str) -> Table:
    rows = [(group, value) for group in groups for value in group.values]
    columns: list[Column[tuple[Group, Value]]] = [
        Column("", lambda row: row[0].label, "text"),
        Column("run", lambda row: row[1].run.name, "text"),
        Column(axis, lambda row: row[1].text),
    ]
    if any(value.interval for _, value in rows):
        columns.append(Column("95% CI", lambda row: bounds(row[1].interval) if row[1].interval else ""))
    return tabulate("", columns, rows)


class Point(Struct, frozen=True):
    """The score of one run and the effort it took."""

    run: Shown
    x: float
    x_text: str
    score: float
    score_text: str
    interval: tuple[float, float] | None = None


def front_of(points: Sequence[Point]) -> list[Point]:
    """Return the points on the Pareto front of score against `x`, cheapest first, without runs that read the gold."""
    memories = [ParetoPoint(mark.run.name, mark.score, cost_usd=mark.x) for mark in points if not mark.run.look.hatched]
    names = pareto_front(memories)
    return sorted((point for point in points if point.run.name in names), key=lambda point: (point.x, point.run.name))


def tradeoff_chart(name: str, title: str, points: Sequence[Point], *, x_axis: str, score_axis: str) -> Chart:
    """Return scores against effort; the Pareto front is a line through filled points, all others are hollow."""
    front = front_of(points)
    least, most = min(point.x for point in points), max(point.x for point in points)
    logarithmic = least > 0 and most > 20 * least

    def draw(figure: "Figure") -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        if logarithmic:
            axes.set_xscale("log")
        across, up = [point.x for point in front], [point.score for point in front]
        axes.plot(across, up, color=MUTED, linewidth=1, linestyle="--")
        for point in points:
            colour = run_colour(point.run.look)
            if point.interval:
                axes.plot((point.x, point.x), point.interval, color=colour, linewidth=0.8, alpha=0.5)
            axes.plot([point.x], [point.score], marker=point.run.look.marker, markersize=7, color=colour,
                      markerfacecolor=colour if point in front else SURFACE, markeredgewidth=1.4, linestyle="none",
                      zorder=3)  # fmt: skip
        span = percent_axis(axes, "y", [end for point in points for end in (point.score, *(point.interval or ()))])
        if not logarithmic:
            axes.set_xlim(0, max(point.x for point in points) * 1.1 or 1)
            axes.xaxis.set_major_locator(MaxNLocator(5))
        heights = spread_apart([point.score + 0.02 * span for point in front], 0.065 * span)
        to_axes = axes.transScale + axes.transLimits
        for point, height in zip(front, heights, strict=True):
            left = to_axes.transform((point.x, point.score))[0] < 0.5
            axes.annotate(_short(point.run.name), (point.x, height), (6 if left else -6, 0), va="bottom", fontsize=7.5,
                          textcoords="offset points", ha="left" if left else "right",
                          color=run_colour(point.run.look))  # fmt: skip
        axes.xaxis.set_major_formatter("{x:g}" if max(point.x for point in points) < 10 else "{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel(x_axis)
        axes.set_ylabel(score_axis)
        axes.grid()

    ceilings = [point.run.name for point in points if point.run.look.hatched]
    description = (
        "Up is better, left is less. The dashed line joins the runs that no other run beats on both (Pareto front, "
        f"filled marks, named): {', '.join(point.run.name for point in front) or 'none'}."
        + (f" {', '.join(ceilings)} reads the gold evidence and is left out of it." if ceilings else "")
    )
    columns: list[Column[Point]] = [
        Column("run", lambda point: point.run.name, "text"),
        Column(x_axis, lambda point: point.x_text),
        Column(score_axis, lambda point: point.score_text),
        Column("on the front", lambda point: "yes" if point in front else ""),
    ]
    figures = tabulate("", columns, points)
    return Chart(name, title, description, drawn(name, _HALF, 3.1, draw), figures)


class Curve(Struct, frozen=True):
    """The shares of one run over k."""

    run: Shown
    k: tuple[int, ...]
    shares: tuple[float, ...]


def recall_chart(curves: Sequence[Curve]) -> Chart:
    """Return the mean share of the evidence among the first k messages of the prompt."""

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        named_lines(
            axes, [(own.run.look, _short(own.run.name), list(zip(own.k, own.shares, strict=True))) for own in curves]
        )
        axes.set_xlim(0.9, max(curve.k[-1] for curve in curves) * 1.08)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("messages k, in the order of the prompt")
        axes.set_ylabel("evidence found")
        axes.grid()

    cutoffs = sorted({k for curve in curves for k in curve.k})
    description = (
        "Mean share of a question's labelled evidence among the first k messages that reached the prompt. Prompts show "
        "messages in the order of time, not of rank: this is where in the prompt evidence is, and how much of it "
        "got there at all. The command longmemeval retrieval measures the ranking itself."
    )
    svg = drawn("recall", WIDE, 3.2, draw)
    columns: list[Column[int]] = [Column("k", lambda k: k), *map(_shares_of, curves)]
    figures = tabulate("", columns, cutoffs)
    return Chart("recall", "Evidence among the first k messages", description, svg, figures)


def _shares_of(curve: Curve) -> Column[int]:
    shares = dict(zip(curve.k, curve.shares, strict=True))
    return Column(curve.run.name, lambda k: percent(shares[k]) if k in shares else "")


def _short(label: str) -> str:
    """Return a label short enough to leave room for the bars; the table of figures has the full label."""
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"


def percent_axis(axes: "Axes", which: str, values: Sequence[float]) -> float:
    """Set a scale in percent that holds all values, between tens and at least 20 points long; return its length."""
    from matplotlib.ticker import PercentFormatter

    low, high = floor(min(values) * 10 + 1e-9) / 10, ceil(max(values) * 10 - 1e-9) / 10
    low = max(0.0, min(low, high - 0.2))
    high = max(high, low + 0.2)
    room = (high - low) * 0.03
    (axes.set_xlim if which == "x" else axes.set_ylim)(low - room, high + room)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="%"))
    if which == "y":
        axes.tick_params(axis="y", labelcolor=MUTED)
    return high - low


def named_lines(axes: "Axes", lines: Sequence[tuple[Look, str, Sequence[tuple[float, float]]]]) -> None:
    """Draw lines over a scale in percent, each with its name beside its right end.

    Args:
        lines: look, name and points of each line.
    """
    span = percent_axis(axes, "y", [share for _, _, points in lines for _, share in points])
    ends = spread_apart([points[-1][1] for _, _, points in lines], 0.055 * span)
    right = max(points[-1][0] for _, _, points in lines)
    for (look, name, points), end in zip(lines, ends, strict=True):
        colour = run_colour(look)
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.5, marker=look.marker, markersize=4,
                  markerfacecolor=run_face(look))  # fmt: skip
        axes.annotate(name, points[-1], (right * 1.13, end), fontsize=8, color=colour, va="center",
                      annotation_clip=False, arrowprops=_LEADER)  # fmt: skip


def spread_apart(values: Sequence[float], gap: float, most: float = 1.05) -> list[float]:
    """Return the values, in their order, moved at least `gap` apart: upwards, and down again if above `most`."""
    moved = [0.0] * len(values)
    order, last = sorted(range(len(values)), key=values.__getitem__), float("-inf")
    for index in order:
        last = moved[index] = max(values[index], last + gap)
    for index in reversed(order):
        moved[index] = min(moved[index], most)
        most = moved[index] - gap
    return moved


# Chart memories under several token budgets: their score and evidence recall against the tokens they show.

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


def far_apart(budgets: Sequence[int]) -> list[int]:
    """Return budgets whose labels do not touch on a logarithmic axis: an eighth of it lies between two."""
    apart = (budgets[-1] / budgets[0]) ** 0.125
    labelled = [budgets[0]]
    for budget in budgets[1:]:
        if budget >= labelled[-1] * apart:
            labelled.append(budget)
    return labelled


def _chart(
    name: str,
    title: str,
    axis: str,
    comparison: Comparison,
    curves: Sequence[BudgetCurve],
    shown: Sequence[Shown],
    value_of: Callable[[ComparedRun], float | None],
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
        axes.set_xticks(far_apart(sorted({budget for curve in curves for budget in curve.budgets})))
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
    return Chart(name, title, _DESCRIPTION, drawn(name, WIDE, 3.4, draw), figures)


# Chart distributions: the latencies of answers, and correctness by the best recall score.

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
    svg = drawn("latency", WIDE, 0.75 + 0.42 * len(runs), draw)
    columns: list[Column[Latencies]] = [
        Column("run", lambda run: run.run.name, "text"),
        Column("answers", lambda run: len(run.milliseconds)),
        *(_percentile(rank) for rank in (5, 25, 50, 75, 95)),
    ]
    return Chart("latency", "Latency", description, svg, tabulate("", columns, runs))


def _percentile(rank: int) -> Column[Latencies]:
    title = "median" if rank == 50 else f"{rank}%"
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
        # Half of the labels have room; the table of figures has them all.
        axes.set_xticks(list(at), ["" if number % 2 else f"{group.lowest:.2g}" for number, group in enumerate(bins)])
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
        svg=drawn(f"calibration-{place + 1}", _HALF, 2.7, draw),
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
