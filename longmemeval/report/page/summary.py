"""Build the first screen of a report and of the live page: scores with intervals, a matrix of pairs, patterns."""

from collections.abc import Sequence
from functools import partial
from math import ceil, floor

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import p_value, signed, signed_bounds
from longmemeval.pipeline.compare.columns import RUN_COLUMNS, ShownColumn, remarks
from longmemeval.pipeline.compare.comparison import ComparedRun, Comparison, PairResult, QuestionRow
from longmemeval.report.charts.svg import Shown, shown_rows, shown_runs

_STEP = 0.1
"""The step of which a scale of scores begins and ends at a multiple."""
_EVERY, _MOST_GAPS = (1, 2, 3, 5), 3
"""Numbers of steps from label to label, and the most gaps between labels: the narrowest scale has room for three."""
_ONLY_MORE = ("preparing", "evidence")
"""Columns that only the live page has room for."""


class ScoreCell(Struct, frozen=True):
    """One cell: the column's id, its heading and the text."""

    id: str
    heading: str
    text: str


class ScoreRow(Struct, frozen=True):
    """One configuration on the first screen; positions are percentages of the scale."""

    place: int
    """Index in the comparison of its run; -1 for repeats, whose questions no single run has."""
    run: Shown
    run_ids: tuple[str, ...]
    remarks: str
    """Remarks that set it apart from the others; usually empty."""
    baseline: bool
    warned: bool
    finding: str
    """`better` or `worse` than the baseline, or empty."""
    interval: str
    at: float
    low: float
    high: float
    changes: tuple[int, int, int] | None
    """Numbers of questions with more, less and the same credit as in the baseline; None for the baseline itself."""
    tokens_share: float
    """Its tokens in percent of the largest number among the rows."""
    cells: tuple[ScoreCell, ...]

    @property
    def run_id(self) -> str:
        """The id of the run, or of the first repeat."""
        return self.run_ids[0]


class Scores(Struct, frozen=True):
    """All configurations on one scale, the best first and controls last."""

    rows: tuple[ScoreRow, ...]
    baseline: Shown
    baseline_at: float
    ticks: tuple[tuple[float, str], ...]
    """Positions on the scale in percent, with their labels."""


def best_first(comparison: Comparison) -> list[tuple[ComparedRun, Shown]]:
    """Return the rows in the order shown, with their looks."""
    shown = {row.run_id: look for row, look in zip(comparison.rows, shown_rows(comparison), strict=True)}
    return [(row, shown[row.run_id]) for row in comparison.ranked]


def scores_of(comparison: Comparison, *, more: bool = False) -> Scores:
    """Return the scores of all rows, in the order of `best_first`.

    Args:
        more: include the columns that only a wide page has room for.
    """
    scores = [row.summary.metrics.overall for row in comparison.rows]
    low = floor(min(score.interval[0] for score in scores) / _STEP + 1e-9) * _STEP
    high = max(ceil(max(score.interval[1] for score in scores) / _STEP - 1e-9) * _STEP, low + 2 * _STEP)

    def place(value: float) -> float:
        return round((value - low) / (high - low) * 100, 2)

    steps = round((high - low) / _STEP)
    every = next(every for every in _EVERY if steps / every <= _MOST_GAPS)
    ticks = [low + _STEP * step for step in range(0, steps + 1, every)]
    most = max((row.summary.mean_prompt_tokens or 0 for row in comparison.rows), default=0) or 1
    columns = [
        column
        for column in RUN_COLUMNS
        if "page" in column.headings and column.when(comparison) and (more or column.id not in _ONLY_MORE)
    ]
    places = {run.run_id: number for number, run in enumerate(comparison.runs)}
    rows = []
    for row, run in best_first(comparison):
        overall = row.summary.metrics.overall
        rows.append(
            ScoreRow(
                place=places[row.run_id] if len(row.run_ids) == 1 else -1,
                run=run,
                run_ids=row.run_ids,
                remarks=", ".join(remarks(comparison, row)),
                baseline=row is comparison.rows[0],
                warned=row.warned,
                finding={"▲": "better", "▼": "worse"}.get(row.marks, ""),
                interval=_cell("interval", comparison, row),
                at=place(overall.accuracy),
                low=place(overall.interval[0]),
                high=place(overall.interval[1]),
                changes=row.changes,
                tokens_share=round((row.summary.mean_prompt_tokens or 0) / most * 100, 1),
                cells=tuple(_score_cell(column, comparison, row) for column in columns),
            )
        )
    labels = tuple((place(tick), f"{tick * 100:.0f}{'%' if tick == ticks[-1] else ''}") for tick in ticks)
    return Scores(tuple(rows), shown_rows(comparison)[0], place(scores[0].accuracy), labels)


def _score_cell(column: ShownColumn[ComparedRun], comparison: Comparison, row: ComparedRun) -> ScoreCell:
    heading = column.of(comparison, "page").title
    return ScoreCell(column.id, heading, column.text(comparison, row))


def _cell(column_id: str, comparison: Comparison, row: ComparedRun) -> str:
    return next(column for column in RUN_COLUMNS if column.id == column_id).text(comparison, row)


class PairCell(Struct, frozen=True):
    """One run minus another."""

    text: str = ""
    """The difference in points, marked if significant; empty for a run against itself."""
    words: str = ""
    kind: str = "self"
    """`ahead`, `behind`, `noise` or `self`."""


class PairRow(Struct, frozen=True):
    """One run minus every run."""

    run: Shown
    cells: tuple[PairCell, ...]


def pair_rows(comparison: Comparison) -> list[PairRow]:
    """Return every run minus every other, the best first; none for two runs, which the baseline's column covers."""
    if len(comparison.rows) < 3:
        return []
    pairs = comparison.both_ways
    runs = [(row.run_id, run) for row, run in best_first(comparison)]
    return [
        PairRow(run, tuple(_pair_cell(pairs.get((run_id, other_id)), run, other) for other_id, other in runs))
        for run_id, run in runs
    ]


def _pair_cell(pair: PairResult | None, run: Shown, other: Shown) -> PairCell:
    if pair is None:
        return PairCell()
    words = f"{run.name} vs. {other.name}: {signed(pair.difference)} points {signed_bounds(pair.interval)}"
    kind = ("ahead" if pair.difference > 0 else "behind") if pair.significant else "noise"
    verdict = pair.verdict_on(run.name, other.name)
    return PairCell(difference_text(pair), f"{words}, p after Holm {p_value(pair.p_holm)}, {verdict}", kind)


def pair_matrix(comparison: Comparison) -> Table | None:
    """Return `pair_rows` as a table in points; None if there are none."""
    rows = list(enumerate(pair_rows(comparison), start=1))
    columns: list[Column[tuple[int, PairRow]]] = [
        Column("row minus column, points", lambda row: f"{row[0]} {row[1].run.name}", "text"),
        *(Column(str(number), partial(_cell_text, number - 1)) for number, _ in rows),
    ]
    return tabulate("", columns, rows) if rows else None


def _cell_text(place: int, row: tuple[int, PairRow]) -> str:
    return row[1].cells[place].text


def difference_text(pair: PairResult) -> str:
    """Return the difference of a pair in points, with its direction if it is significant."""
    return signed(pair.difference) + ((" ▲" if pair.difference > 0 else " ▼") if pair.significant else "")


class Pattern(Struct, frozen=True):
    """The questions on which the runs show one pattern of right and wrong answers."""

    key: str
    """The key in the page's address: `right`, `wrong`, `differ`, `won-2`, `lost-2`, `only-2`, with the run's index."""
    words: str
    count: int


def among(comparison: Comparison) -> list[int]:
    """Return the indexes of the runs that patterns are about: the baseline, and all runs that are not controls."""
    systems = [place for place, run in enumerate(comparison.runs) if place == 0 or run.summary.control is None]
    return systems if len(systems) > 1 else list(range(len(comparison.runs)))


def pattern_of(row: QuestionRow, places: Sequence[int]) -> str:
    """Return `right` or `wrong` if all of these runs are, else `differ`."""
    credits = [row.credits[place] or 0.0 for place in places]
    return "right" if min(credits) >= 1 else "differ" if len(set(credits)) > 1 else "wrong"


def patterns_of(comparison: Comparison) -> list[Pattern]:
    """Count the questions on which runs differ, that all or none get right, and that only a single run gets right."""
    if len(comparison.runs) < 2:
        return []
    places, shown = among(comparison), shown_runs(comparison)
    keys = [pattern_of(row, places) for row in comparison.questions]
    words = (("differ", "differ"), ("right", "all right"), ("wrong", "none right"))
    patterns = [Pattern(key, text, keys.count(key)) for key, text in words]
    for place in places:
        only = [
            [other for other in places if (row.credits[other] or 0.0) >= 1] == [place] for row in comparison.questions
        ].count(True)
        patterns += [Pattern(f"only-{place}", f"only {shown[place].name}", only)] if only else []
    return patterns
