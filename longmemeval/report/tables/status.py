"""Show runs and preparations in progress, as a table and in sentences."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    duration,
    in_dollars,
    percent,
)
from longmemeval.pipeline.status import PreparationState, RunState, ScoreSoFar, Work


def status_table(runs: Sequence[RunState], preparations: Sequence[PreparationState]) -> Table:
    """Return one row for each run and preparation."""
    return tabulate("", _COLUMNS, [*map(_run_row, runs), *map(_preparation_row, preparations)])


def progress(run: RunState) -> str:
    """Return how much of its current stage a run has done, and how long the rest takes, in a few words."""
    work = run.at_work
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


def _run_row(run: RunState) -> _Row:
    score = _score_so_far(run.scores[-1]) if run.scores else None
    return _Row(run.run, run.state, run.at_work, _spent(run), score)


def _preparation_row(preparation: PreparationState) -> _Row:
    return _Row(preparation.preparation, preparation.state, preparation.work, _spent(preparation))


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


def sentences(job: RunState | PreparationState) -> Iterator[str]:
    """Yield the progress of one run or preparation, what it spent, and its scores."""
    name = job.run if isinstance(job, RunState) else job.preparation
    yield f"{name}: {_describe(job)}"
    works = (
        [work for work in job.work if work is job.at_work or work.alive] if isinstance(job, RunState) else [job.work]
    )
    for work in works:
        failed = f", {work.failed:,} failed" if work.failed else ""
        rate = f", {_rate(work)}" if work.per_second else ""
        left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
        quiet = f", last line {duration(work.quiet_s)} ago" if work.quiet_s is not None and not job.is_over else ""
        yield f"  {work.name}: {_done(work)} done{failed}{rate}{left}{quiet}"
    if isinstance(job, RunState) and job.cause:
        yield f"  cause: {job.cause}"
    if spent := _spent(job):
        yield f"  spent: {spent}"
    if isinstance(job, RunState):
        for score in job.scores:
            yield f"  {_score_so_far(score)}, judged by {score.judge}"


def _describe(job: RunState | PreparationState) -> str:
    work = job.at_work if isinstance(job, RunState) else job.work
    if job.state == "died":
        pid = f"Process {work.pid}" if work and work.pid else "Its process"
        return f"crashed. {pid} ended unexpectedly. Rerun the same command to continue"
    if job.state == "away":
        return f"running on {work.host if work else 'another machine'}, or crashed there: its lock is free here"
    if work and work.alive and work.pid:
        return f"{job.state} (process {work.pid} on {work.host})"
    return job.state


def _done(work: Work) -> str:
    return f"{work.done:,}" if work.total is None else f"{work.done:,} of {work.total:,}"


def _rate(work: Work) -> str:
    if not work.per_second:
        return ""
    return f"{work.per_second:.1f}/s" if work.per_second >= 1 else f"{work.per_second * 60:.1f}/min"


def _spent(job: RunState | PreparationState) -> str | None:
    if job.spent_usd is None:
        return None
    of = f" of {in_dollars(job.limit_usd)}" if job.limit_usd is not None else ""
    return f"{in_dollars(job.spent_usd)}{of}"


def _score_so_far(score: ScoreSoFar) -> str:
    named = "interim " if score.interim else ""
    if score.value is None or score.interval is None:
        return f"{named}{score.metric}: nothing graded yet"
    so_far = f" over {score.judged:,} of {score.of:,}" if score.interim else ""
    return f"{named}{score.metric} {percent(score.value)} {bounds(score.interval)}{so_far}"
