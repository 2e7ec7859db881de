"""Two judges of the same answers: what each makes of them, and how far they agree against what their rates lead to."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import bounds, percent
from longmemeval.report.charts.charts import Chart, percent_axis
from longmemeval.report.charts.palette import Shown
from longmemeval.report.charts.svg import GRID, INK, MUTED, SURFACE, drawn, run_colour
from longmemeval.statistics.misclassification import Corrected

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os"


class JudgedBy(Struct, frozen=True):
    """One run by one judge whose rates are known."""

    judge: str
    passes_right: float
    passes_wrong: float
    score: float
    corrected: Corrected


class TwoJudges(Struct, frozen=True):
    """One run by two such judges."""

    run: Shown
    judges: tuple[JudgedBy, JudgedBy]
    n: int
    """Answers that have a label by both."""
    agreed: float
    """Share of these with the same label."""
    agreed_interval: tuple[float, float]
    expected: float
    """The share that the rates lead to, if the errors of the two have nothing in common."""
    expected_range: tuple[float, float]
    """Over what is not known of the true accuracy."""


def two_judges_chart(pairs: Sequence[TwoJudges]) -> Chart:
    """Scores by both judges, raw and corrected, beside agreement against what the rates lead to."""

    def draw(figure: "Figure") -> None:
        left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
        _draw_scores(left, pairs)
        _draw_agreement(right, pairs)

    description = (
        "Left: what two judges make of the same answers. Hollow: the score; filled, with its 95 % interval: corrected "
        "for the errors that the check of the judge found. Where both checks hold for these answers, the filled marks "
        "of a run meet. Right: how often the two give the same label, against how often their rates say they would. On "
        "the line they err independently of each other. Above it they make the same mistakes, and their agreement is "
        "no sign of being right; below it one errs on these answers otherwise than on the planted ones."
    )
    svg = drawn("two-judges", 7.6, max(3.0, 0.9 + 0.5 * len(pairs)), draw)
    rows = [(pair, one) for pair in pairs for one in pair.judges]
    return Chart("two-judges", "Rates against agreement", description, svg, tabulate("", _columns(), rows))


_Judged = tuple[TwoJudges, JudgedBy]


def _columns() -> list[Column[_Judged]]:
    """Return the columns of a row per run and judge; what is said of both stands in the first judge's."""

    def of_both(title: str, value: Callable[[TwoJudges], str | int]) -> Column[_Judged]:
        return Column(title, lambda row: value(row[0]) if row[1] is row[0].judges[0] else "")

    return [
        Column("run", lambda row: row[0].run.name, "text"),
        Column("judge", lambda row: row[1].judge, "text"),
        Column("passes right", lambda row: percent(row[1].passes_right)),
        Column("passes wrong", lambda row: percent(row[1].passes_wrong)),
        Column("score", lambda row: percent(row[1].score)),
        Column("corrected", lambda row: percent(row[1].corrected.value)),
        Column("95 % interval", lambda row: bounds(row[1].corrected.interval)),
        of_both("same label", lambda pair: percent(pair.agreed)),
        of_both("95 % interval", lambda pair: bounds(pair.agreed_interval)),
        of_both("by their rates", lambda pair: percent(pair.expected)),
        of_both("range", lambda pair: bounds(pair.expected_range)),
        of_both("n", lambda pair: pair.n),
    ]


def _draw_scores(axes: "Axes", pairs: Sequence[TwoJudges]) -> None:
    names: list[str] = []
    for pair in pairs:
        for judge, one in enumerate(pair.judges):
            place, colour, marker = len(names) * 0.5, run_colour(pair.run.look), _MARKERS[judge]
            names.append(f"{pair.run.name}  {_short(one.judge)}")
            axes.plot(one.corrected.interval, (place, place), color=colour, linewidth=1.4, solid_capstyle="butt")
            axes.plot((one.score, one.corrected.value), (place, place), color=MUTED, linewidth=0.8, linestyle=":")
            for value, face in ((one.score, SURFACE), (one.corrected.value, colour)):
                axes.plot([value], [place], marker=marker, markersize=6, markerfacecolor=face, markeredgecolor=colour,
                          markeredgewidth=1.3, linestyle="none", zorder=3)  # fmt: skip
    axes.set_yticks([0.5 * place for place in range(len(names))], names)
    axes.set_ylim(0.5 * len(names) - 0.2, -0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("score, and corrected score")
    percent_axis(axes, "x", [value for pair in pairs for one in pair.judges for value in _scores(one)])
    axes.grid(axis="x")


def _scores(one: JudgedBy) -> tuple[float, ...]:
    return (one.score, one.corrected.value, *one.corrected.interval)


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
