"""The first screen of a report and of the live page: scores on their intervals, pairs as a matrix, patterns."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import bounds, count, milliseconds, percent, signed, signed_bounds
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, QuestionRow
from longmemeval.report.charts.palette import Shown, shown_runs
from longmemeval.report.tables.cells import cost_text
from longmemeval.report.tables.footnotes import deviation_lines, warning_codes

_STEP = 0.1
"""A scale of scores begins and ends at a multiple of this."""


class ScoreRow(Struct, frozen=True):
    """One run on the first screen; places are percentages of the scale."""

    place: int
    """Of the run in the comparison; the baseline is at 0."""
    run: Shown
    run_id: str
    control: bool
    baseline: bool
    warned: bool
    score: str
    interval: str
    at: float
    low: float
    high: float
    finding: str
    """`better` or `worse` than the baseline, or empty."""
    against: str
    """The difference from the baseline in points, with its interval."""
    won: int
    lost: int
    same: int
    """Questions with more, less and as much credit as the baseline has."""
    tokens: str
    tokens_share: float
    """Of the largest among the runs, in percent."""
    cost: str
    latency: str


class Scores(Struct, frozen=True):
    """All runs, the best first, on one scale."""

    metric: str
    rows: tuple[ScoreRow, ...]
    baseline: Shown
    baseline_at: float
    ticks: tuple[tuple[float, str], ...]
    """Places on the scale, in percent, with their labels."""


def shown_in(comparison: Comparison) -> list[Shown]:
    """Return how each run is shown."""
    return shown_runs([one.summary for one in comparison.runs])


def scores_of(comparison: Comparison) -> Scores:
    """Return the runs by their scores; ties keep the order of the comparison."""
    scores = [one.summary.metrics.overall for one in comparison.runs]
    low = floor(min(one.interval[0] for one in scores) / _STEP + 1e-9) * _STEP
    high = max(ceil(max(one.interval[1] for one in scores) / _STEP - 1e-9) * _STEP, low + 2 * _STEP)

    def place(value: float) -> float:
        return round((value - low) / (high - low) * 100, 2)

    shown = shown_in(comparison)
    steps = round((high - low) / _STEP)
    ticks = [low + _STEP * step for step in range(0, steps + 1, 2 if steps > 5 else 1)]
    most = max((one.summary.mean_prompt_tokens or 0 for one in comparison.runs), default=0) or 1
    against = comparison.from_baseline
    rows = [
        _score_row(comparison, number, run, place, most, against)
        for number, run in sorted(enumerate(shown), key=lambda pair: -scores[pair[0]].accuracy)
    ]
    metric = comparison.runs[0].summary.metrics.judge.metric
    at = place(scores[0].accuracy)
    return Scores(metric, tuple(rows), shown[0], at, tuple((place(one), f"{one * 100:.0f} %") for one in ticks))


def _score_row(
    comparison: Comparison,
    number: int,
    run: Shown,
    place: Callable[[float], float],
    most: float,
    against: Mapping[str, PairResult],
) -> ScoreRow:
    figures = comparison.runs[number]
    summary, overall = figures.summary, figures.summary.metrics.overall
    pair = against.get(summary.run_id)
    changes = [(row.credits[number] or 0.0) - (row.credits[0] or 0.0) for row in comparison.questions]
    tokens = summary.mean_prompt_tokens
    return ScoreRow(
        place=number,
        run=run,
        run_id=summary.run_id,
        control=summary.control is not None,
        baseline=number == 0,
        warned=bool(summary.warnings),
        score=percent(overall.accuracy),
        interval=bounds(overall.interval),
        at=place(overall.accuracy),
        low=place(overall.interval[0]),
        high=place(overall.interval[1]),
        finding="" if pair is None or not pair.significant else "better" if pair.is_better else "worse",
        against="" if pair is None else f"{signed(pair.difference)} {signed_bounds(pair.interval)}",
        won=sum(one > 0 for one in changes),
        lost=sum(one < 0 for one in changes),
        same=changes.count(0.0),
        tokens=count(tokens),
        tokens_share=round((tokens or 0) / most * 100, 1),
        cost=cost_text(summary.costs.total),
        latency=milliseconds(summary.latency.total.p50),
    )


def pair_matrix(comparison: Comparison) -> Table | None:
    """Return every run minus every other in points, the best first; None where the baseline's column says it all."""
    if len(comparison.runs) < 3:
        return None
    pairs = comparison.both_ways
    rows = [(number, row) for number, row in enumerate(scores_of(comparison).rows, start=1)]

    def column(number: int, other: ScoreRow) -> Column[tuple[int, ScoreRow]]:
        return Column(
            str(number),
            lambda row: difference_text(pairs[one]) if (one := (row[1].run_id, other.run_id)) in pairs else "",
        )

    columns: list[Column[tuple[int, ScoreRow]]] = [
        Column("row minus column, points", lambda row: f"{row[0]} {row[1].run.name}", "text"),
        *(column(number, other) for number, other in rows),
    ]
    return tabulate("", columns, rows)


def difference_text(pair: PairResult) -> str:
    """Return the difference of a pair in points, with its direction where it is significant."""
    return signed(pair.difference) + ((" ▲" if pair.difference > 0 else " ▼") if pair.significant else "")


class Pattern(Struct, frozen=True):
    """Questions on which the runs did in one way."""

    key: str
    """What the address says: `right`, `wrong`, `differ`, `won-2`, `lost-2`, `only-2`, by the run's place."""
    words: str
    count: int


def among(comparison: Comparison) -> list[int]:
    """Return the places of the runs that patterns are about: the baseline, and those that are no controls."""
    systems = [place for place, one in enumerate(comparison.runs) if place == 0 or one.summary.control is None]
    return systems if len(systems) > 1 else list(range(len(comparison.runs)))


def pattern_of(row: QuestionRow, places: Sequence[int]) -> str:
    """Return `right` or `wrong` where all of these runs are, else `differ`."""
    credits = [row.credits[place] or 0.0 for place in places]
    return "right" if min(credits) >= 1 else "differ" if len(set(credits)) > 1 else "wrong"


def patterns_of(comparison: Comparison) -> list[Pattern]:
    """Return on how many questions runs differ, how many all have right or none has, and what single runs have."""
    if len(comparison.runs) < 2:
        return []
    places, shown = among(comparison), shown_in(comparison)
    found = [pattern_of(row, places) for row in comparison.questions]
    words = (("differ", "they differ"), ("right", "all right"), ("wrong", "none right"))
    patterns = [Pattern(key, text, found.count(key)) for key, text in words]
    for place in places:
        only = [
            [one for one in places if (row.credits[one] or 0.0) >= 1] == [place] for row in comparison.questions
        ].count(True)
        patterns += [Pattern(f"only-{place}", f"only {shown[place].name}", only)] if only else []
    return patterns


def main_notes(comparison: Comparison) -> list[str]:
    """Return the few lines that stand under the scores: codes of warnings, what speaks against them, what differs."""
    runs = zip(shown_in(comparison), comparison.runs, strict=True)
    lines = [warning_codes([(one.name, run.summary.warnings) for one, run in runs]), *comparison.cautions[:1]]
    lines += deviation_lines(comparison)
    if comparison.differing:
        lines.append(f"What differs beside the memories: {', '.join(comparison.differing)}.")
    return [line for line in lines if line]
