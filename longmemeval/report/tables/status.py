"""Runs and preparations under way, as a table and in sentences."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, duration, in_dollars, percent
from longmemeval.pipeline.status.preparations import PreparationState
from longmemeval.pipeline.status.runs import RunState, ScoreSoFar
from longmemeval.pipeline.status.tail import Work


def status_table(runs: Sequence[RunState], preparations: Sequence[PreparationState]) -> Table:
    """Return one row for each run and preparation."""
    return tabulate("", _COLUMNS, [*map(_of_run, runs), *map(_of_preparation, preparations)])


def progress(one: RunState) -> str:
    """Return how much of its present work a run has done, and how long the rest takes, in a few words."""
    work = one.at_work
    if work is None:
        return UNKNOWN
    left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
    return f"{_done(work)}{left}"


class _Row(Struct, frozen=True):
    name: str
    state: str
    work: Work | None
    spent: str | None
    score: str | None = None


def _of_run(one: RunState) -> _Row:
    score = _score_so_far(one.scores[-1]) if one.scores else None
    return _Row(one.run, one.state, one.at_work, _spent(one), score)


def _of_preparation(one: PreparationState) -> _Row:
    return _Row(one.preparation, one.state, one.work, _spent(one))


def _work(title: str, value: Callable[[Work], str | int | None], kind: Kind = "figure", drop: int = 0) -> Column[_Row]:
    return Column(title, lambda row: value(row.work) if row.work else None, kind, drop)


_COLUMNS: list[Column[_Row]] = [
    Column("run", lambda row: row.name, "text"),
    Column("state", lambda row: row.state, "text"),
    _work("stage", lambda work: work.name, "text", drop=2),
    _work("done", lambda work: _done(work)),
    _work("failed", lambda work: work.failed, drop=3),
    _work("rate", lambda work: _rate(work) or None, drop=4),
    _work("left", lambda work: duration(work.seconds_left)),
    Column("spent", lambda row: row.spent, drop=1),
    Column("score", lambda row: row.score, "text"),
]


def sentences(one: RunState | PreparationState) -> Iterator[str]:
    """Return how far one run or preparation is, what it spent, its scores."""
    name = one.run if isinstance(one, RunState) else one.preparation
    yield f"{name}: {_what(one)}"
    works = (
        [work for work in one.work if work is one.at_work or work.alive] if isinstance(one, RunState) else [one.work]
    )
    for work in works:
        failed = f", {work.failed:,} failed" if work.failed else ""
        rate = f", {_rate(work)}" if work.per_second else ""
        left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
        quiet = f", last line {duration(work.quiet_s)} ago" if work.quiet_s is not None and not one.is_over else ""
        yield f"  {work.name}: {_done(work)} done{failed}{rate}{left}{quiet}"
    if spent := _spent(one):
        yield f"  spent: {spent}"
    if isinstance(one, RunState):
        for score in one.scores:
            yield f"  {_score_so_far(score)}, judged by {score.judge}"


def _what(one: RunState | PreparationState) -> str:
    work = one.at_work if isinstance(one, RunState) else one.work
    if one.state == "died":
        pid = f"Process {work.pid}" if work and work.pid else "Its process"
        return f"died. {pid} ended without saying so; the same command goes on"
    if one.state == "away":
        return f"running on {work.host if work else 'another machine'}, or died there: its lock is free here"
    if work and work.alive and work.pid:
        return f"{one.state} (process {work.pid} on {work.host})"
    return one.state


def _done(work: Work) -> str:
    return f"{work.done:,}" if work.total is None else f"{work.done:,} of {work.total:,}"


def _rate(work: Work) -> str:
    if not work.per_second:
        return ""
    return f"{work.per_second:.1f}/s" if work.per_second >= 1 else f"{work.per_second * 60:.1f}/min"


def _spent(one: RunState | PreparationState) -> str | None:
    if one.spent_usd is None:
        return None
    of = f" of {in_dollars(one.limit_usd)}" if one.limit_usd is not None else ""
    return f"{in_dollars(one.spent_usd)}{of}"


def _score_so_far(score: ScoreSoFar) -> str:
    named = "interim " if score.interim else ""
    if score.value is None or score.interval is None:
        return f"{named}{score.metric}: nothing is judged yet"
    so_far = f" over {score.judged:,} of {score.of:,}" if score.interim else ""
    return f"{named}{score.metric} {percent(score.value)} {bounds(score.interval)}{so_far}"
