"""Chart two judges of the same answers: the score by each, and their agreement against what their rates predict."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import bounds, percent
from longmemeval.report.charts.charts import WIDE, Chart, percent_axis
from longmemeval.report.charts.svg import GRID, INK, MUTED, SURFACE, Shown, drawn, run_colour
from longmemeval.statistics.misclassification import Corrected

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os"
_AGREEMENT_INCHES = 2.4
"""Height of the lower drawing."""


class JudgedBy(Struct, frozen=True):
    """One run by one judge whose rates are known."""

    judge: str
    passes_right: float
    passes_wrong: float
    score: float
    corrected: Corrected


class TwoJudges(Struct, frozen=True):
    """One run by two judges whose rates are known."""

    run: Shown
    judges: tuple[JudgedBy, JudgedBy]
    n: int
    """Number of answers that both judges labelled."""
    agreed: float
    """Share of these answers with the same label."""
    agreed_interval: tuple[float, float]
    expected: float
    """The share of equal labels that the rates predict if the errors of the two are independent."""
    expected_range: tuple[float, float]
    """The range of `expected` over the uncertainty of the true accuracy."""


def two_judges_chart(pairs: Sequence[TwoJudges]) -> Chart:
    """Return scores by both judges, raw and corrected, beside their agreement against what the rates predict."""

    def draw(figure: "Figure") -> None:
        upper, lower = figure.subplots(2, 1, height_ratios=(0.9 + 0.5 * len(pairs), _AGREEMENT_INCHES))
        _draw_scores(upper, pairs)
        _draw_agreement(lower, pairs)

    description = (
        "Top: what two judges make of the same answers. Hollow: the score; filled, with its 95% CI: corrected "
        "for the errors that the check of the judge found. Where both checks hold for these answers, the filled marks "
        "of a run meet. Bottom: how often the two give the same label, against how often their rates say they would. "
        "On the line they err independently of each other. Above it they make the same mistakes, and their agreement "
        "is no sign of being right; below it one errs on these answers otherwise than on the planted ones."
    )
    svg = drawn("two-judges", WIDE, 0.9 + 0.5 * len(pairs) + _AGREEMENT_INCHES, draw)
    rows = [(pair, judge) for pair in pairs for judge in pair.judges]
    return Chart("two-judges", "Error rates vs. agreement", description, svg, tabulate("", _columns(), rows))


_Judged = tuple[TwoJudges, JudgedBy]


def _columns() -> list[Column[_Judged]]:
    """Return the columns for a row per run and judge; figures of the pair stand in the first judge's row."""

    def pair_column(title: str, value: Callable[[TwoJudges], str | int]) -> Column[_Judged]:
        return Column(title, lambda row: value(row[0]) if row[1] is row[0].judges[0] else "")

    return [
        Column("run", lambda row: row[0].run.name, "text"),
        Column("judge", lambda row: row[1].judge, "text"),
        Column("passes right", lambda row: percent(row[1].passes_right)),
        Column("passes wrong", lambda row: percent(row[1].passes_wrong)),
        Column("score", lambda row: percent(row[1].score)),
        Column("corrected", lambda row: percent(row[1].corrected.value)),
        Column("95% CI", lambda row: bounds(row[1].corrected.interval)),
        pair_column("same label", lambda pair: percent(pair.agreed)),
        pair_column("95% CI", lambda pair: bounds(pair.agreed_interval)),
        pair_column("by their rates", lambda pair: percent(pair.expected)),
        pair_column("range", lambda pair: bounds(pair.expected_range)),
        pair_column("n", lambda pair: pair.n),
    ]


def _draw_scores(axes: "Axes", pairs: Sequence[TwoJudges]) -> None:
    names: list[str] = []
    for pair in pairs:
        for number, judge in enumerate(pair.judges):
            place, colour, marker = len(names) * 0.5, run_colour(pair.run.look), _MARKERS[number]
            names.append(f"{pair.run.name}  {_short(judge.judge)}")
            axes.plot(judge.corrected.interval, (place, place), color=colour, linewidth=1.4, solid_capstyle="butt")
            axes.plot((judge.score, judge.corrected.value), (place, place), color=MUTED, linewidth=0.8, linestyle=":")
            for value, face in ((judge.score, SURFACE), (judge.corrected.value, colour)):
                axes.plot([value], [place], marker=marker, markersize=6, markerfacecolor=face, markeredgecolor=colour,
                          markeredgewidth=1.3, linestyle="none", zorder=3)  # fmt: skip
    axes.set_yticks([0.5 * place for place in range(len(names))], names)
    axes.set_ylim(0.5 * len(names) - 0.2, -0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("score, and corrected score")
    percent_axis(axes, "x", [value for pair in pairs for judge in pair.judges for value in _scores(judge)])
    axes.grid(axis="x")


def _scores(judge: JudgedBy) -> tuple[float, ...]:
    return (judge.score, judge.corrected.value, *judge.corrected.interval)


def _draw_agreement(axes: "Axes", pairs: Sequence[TwoJudges]) -> None:
    shown = [value for pair in pairs for value in (*pair.agreed_interval, *pair.expected_range)]
    axes.axline((0, 0), slope=1, color=GRID, linewidth=1.2)
    for pair in pairs:
        colour = run_colour(pair.run.look)
        axes.plot((pair.expected, pair.expected), pair.agreed_interval, color=colour, linewidth=1.2)
        axes.plot(pair.expected_range, (pair.agreed, pair.agreed), color=colour, linewidth=1.2)
        axes.plot([pair.expected], [pair.agreed], marker="D", markersize=5, color=colour, linestyle="none", zorder=3)
        axes.annotate(pair.run.name, (pair.expected, pair.agreed), (6, 5), textcoords="offset points", fontsize=8,
                      color=INK)  # fmt: skip
    for which in ("x", "y"):
        percent_axis(axes, which, shown)
    axes.set_xlabel("same label, by their rates")
    axes.set_ylabel("same label, in fact")
    axes.grid()


def _short(judge: str) -> str:
    return judge if len(judge) <= 26 else judge[:25] + "…"
