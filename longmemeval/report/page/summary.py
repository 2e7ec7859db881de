"""Build the first screen of a report and of the live page: scores with intervals, a matrix of pairs, patterns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import bounds, count, milliseconds, p_value, percent, signed, signed_bounds
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, QuestionRow
from longmemeval.pipeline.compare.shared import marked_runs
from longmemeval.report.charts.palette import Shown, shown_runs
from longmemeval.report.tables.cells import cost_text, remarks
from longmemeval.report.tables.comparison import outcome, shown_recall

_STEP = 0.1
"""The step of which a scale of scores begins and ends at a multiple."""


class ScoreRow(Struct, frozen=True):
    """One run on the first screen; positions are percentages of the scale."""

    place: int
    """Index of the run in the comparison; the baseline has 0."""
    run: Shown
    run_id: str
    remarks: str
    """Remarks that set the run apart from the others, and the number of questions not evaluated; usually empty."""
    baseline: bool
    warned: bool
    score: str
    interval: str
    at: float
    low: float
    high: float
    finding: str
    """`better` or `worse` than the baseline, or empty."""
    difference: str
    """The difference from the baseline in points; empty for the baseline itself."""
    against: str
    """The interval of `difference`."""
    won: int
    """Number of questions with more credit than in the baseline."""
    lost: int
    """Number of questions with less credit than in the baseline."""
    same: int
    """Number of questions with the same credit as in the baseline."""
    tokens: str
    tokens_share: float
    """The run's tokens in percent of the largest number among the runs."""
    cost: str
    preparing: str
    """The cost of preparing, which `cost` includes."""
    latency: str
    recall: str
    """The recall of the evidence."""


class Scores(Struct, frozen=True):
    """All runs on one scale, the best first and controls last."""

    metric: str
    rows: tuple[ScoreRow, ...]
    baseline: Shown
    baseline_at: float
    ticks: tuple[tuple[float, str], ...]
    """Positions on the scale in percent, with their labels."""


def shown_in(comparison: Comparison) -> list[Shown]:
    """Return the name and look of each run."""
    return shown_runs([run.summary for run in comparison.runs])


def best_first(comparison: Comparison) -> list[tuple[int, Shown]]:
    """Return index and look of each run, the best first and controls last; ties keep the order of the comparison."""

    def order(run: tuple[int, Shown]) -> tuple[bool, float]:
        summary = comparison.runs[run[0]].summary
        return summary.control is not None, -summary.metrics.overall.accuracy

    return sorted(enumerate(shown_in(comparison)), key=order)


def scores_of(comparison: Comparison) -> Scores:
    """Return the scores of all runs, in the order of `best_first`."""
    scores = [run.summary.metrics.overall for run in comparison.runs]
    low = floor(min(score.interval[0] for score in scores) / _STEP + 1e-9) * _STEP
    high = max(ceil(max(score.interval[1] for score in scores) / _STEP - 1e-9) * _STEP, low + 2 * _STEP)

    def place(value: float) -> float:
        return round((value - low) / (high - low) * 100, 2)

    steps = round((high - low) / _STEP)
    ticks = [low + _STEP * step for step in range(0, steps + 1, 2 if steps > 5 else 1)]
    most = max((run.summary.mean_prompt_tokens or 0 for run in comparison.runs), default=0) or 1
    against = comparison.from_baseline
    shown = best_first(comparison)
    rows = [_score_row(comparison, number, run, place, most, against) for number, run in shown]
    metric = comparison.runs[0].summary.metrics.judge.metric
    at = place(scores[0].accuracy)
    labels = tuple((place(tick), f"{tick * 100:.0f}{' %' if tick == ticks[-1] else ''}") for tick in ticks)
    return Scores(metric, tuple(rows), dict(shown)[0], at, labels)


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
    outcomes = [outcome(row, number) for row in comparison.questions]
    won, lost = outcomes.count("won"), outcomes.count("lost")
    tokens = summary.mean_prompt_tokens
    words = [*remarks(summary), *([f"{overall.not_evaluated:,} not evaluated"] if overall.not_evaluated else [])]
    return ScoreRow(
        place=number,
        run=run,
        run_id=summary.run_id,
        remarks=", ".join(words),
        baseline=number == 0,
        warned=summary.run_id in marked_runs([other.summary for other in comparison.runs]),
        score=percent(overall.accuracy),
        interval=bounds(overall.interval),
        at=place(overall.accuracy),
        low=place(overall.interval[0]),
        high=place(overall.interval[1]),
        finding="" if pair is None or not pair.significant else "better" if pair.is_better else "worse",
        difference="" if pair is None else signed(pair.difference),
        against="" if pair is None else signed_bounds(pair.interval),
        won=won,
        lost=lost,
        same=len(outcomes) - won - lost,
        tokens=count(tokens),
        tokens_share=round((tokens or 0) / most * 100, 1),
        cost=cost_text(summary.costs.total),
        preparing=cost_text(summary.costs.prepare),
        latency=milliseconds(summary.latency.total.p50),
        recall=shown_recall(figures),
    )


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
    if len(comparison.runs) < 3:
        return []
    pairs = comparison.both_ways
    runs = [(comparison.runs[place].summary.run_id, run) for place, run in best_first(comparison)]
    return [
        PairRow(run, tuple(_pair_cell(pairs.get((run_id, other_id)), run, other) for other_id, other in runs))
        for run_id, run in runs
    ]


def _pair_cell(pair: PairResult | None, run: Shown, other: Shown) -> PairCell:
    if pair is None:
        return PairCell()
    words = f"{run.name} against {other.name}: {signed(pair.difference)} points {signed_bounds(pair.interval)}"
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
    places, shown = among(comparison), shown_in(comparison)
    keys = [pattern_of(row, places) for row in comparison.questions]
    words = (("differ", "differ"), ("right", "all right"), ("wrong", "none right"))
    patterns = [Pattern(key, text, keys.count(key)) for key, text in words]
    for place in places:
        only = [
            [other for other in places if (row.credits[other] or 0.0) >= 1] == [place] for row in comparison.questions
        ].count(True)
        patterns += [Pattern(f"only-{place}", f"only {shown[place].name}", only)] if only else []
    return patterns
