"""Runs and preparations under way, as a table and in sentences."""

from collections.abc import Iterator, Sequence

from longmemeval.core.text.durations import duration
from longmemeval.llm.costs.spending import shown_dollars
from longmemeval.pipeline.status.preparations import PreparationState
from longmemeval.pipeline.status.runs import RunState, ScoreSoFar
from longmemeval.pipeline.status.tail import Work
from longmemeval.report.tables.cells import percent
from longmemeval.report.tables.table import Table

_COLUMNS = ["run", "state", "stage", "done", "failed", "rate", "left", "spent", "score"]


def status_table(runs: Sequence[RunState], preparations: Sequence[PreparationState]) -> Table:
    """Return one row for each run and preparation."""
    rows = [_row(one.run, one.state, one.at_work, _spent(one), _score(one)) for one in runs]
    rows += [_row(one.preparation, one.state, one.work, _spent(one), "-") for one in preparations]
    return Table("", _COLUMNS, rows, left=frozenset({0, 1, 2, 8}), drop=(5, 4, 2, 7))


def progress(one: RunState) -> str:
    """Return how much of its present work a run has done, and how long the rest takes, in a few words."""
    work = one.at_work
    if work is None:
        return "-"
    left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
    return f"{_done(work)}{left}"


def _row(name: str, state: str, work: Work | None, spent: str, score: str) -> list[str]:
    if work is None:
        return [name, state, *["-"] * 7]
    left = duration(work.seconds_left) if work.seconds_left is not None else "-"
    return [name, state, work.name, _done(work), f"{work.failed:,}", _rate(work) or "-", left, spent, score]


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
    if (spent := _spent(one)) != "-":
        yield f"  spent: {spent}"
    if isinstance(one, RunState):
        for score in one.scores:
            yield f"  {_told(score)}, judged by {score.judge}"


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


def _spent(one: RunState | PreparationState) -> str:
    if one.spent_usd is None:
        return "-"
    of = f" of {shown_dollars(one.limit_usd)}" if one.limit_usd is not None else ""
    return f"{shown_dollars(one.spent_usd)}{of}"


def _score(one: RunState) -> str:
    return _told(one.scores[-1]) if one.scores else "-"


def _told(score: ScoreSoFar) -> str:
    named = "interim " if score.interim else ""
    if score.value is None or score.interval is None:
        return f"{named}{score.metric}: nothing is judged yet"
    low, high = (f"{bound * 100:.1f}" for bound in score.interval)
    so_far = f" over {score.judged:,} of {score.of:,}" if score.interim else ""
    return f"{named}{score.metric} {percent(score.value)} [{low}, {high}]{so_far}"
