"""Test every run of a comparison against its best trivial control.

These tests form a family of their own, apart from the table of all pairs: k runs against one control, adjusted for k
comparisons (Holm 1979). Repeats of one configuration count as one run, with the mean credit of each question.
"""

from collections.abc import Sequence
from itertools import count
from math import ceil, fsum

from longmemeval.core.text.figures import count_of
from longmemeval.pipeline.compare.comparison import Note
from longmemeval.pipeline.compare.flips import pool_repeats
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.statistics.paired import compare_pairs, holm
from longmemeval.statistics.power import ALPHA, independent_units
from longmemeval.statistics.resampling import share_haystacks, smallest_p

Pool = Sequence[Evaluation]


def floor_note(graded: Sequence[Evaluation], seed: int = 0) -> Note | None:
    """Say which runs are significantly better than the best trivial control, or that these questions cannot show it.

    Args:
        graded: runs over the same questions, graded by the same judge.
        seed: seed of the resampling.

    Returns:
        None if no run is a trivial control, or all runs are controls.
    """
    pools = pool_repeats(graded)
    floors = [pool for pool in pools if pool[0].summary.control == "floor"]
    systems = [pool for pool in pools if pool[0].summary.control is None]
    if not floors or not systems:
        return None
    best = max(floors, key=lambda pool: fsum(_credits(pool).values()))
    if note := _out_of_reach(best, len(systems)):
        return Note(note, caution=True)
    base, haystacks = _credits(best), graded[0].haystacks
    results = [compare_pairs(_credits(pool), base, haystacks, seed=seed) for pool in systems]
    adjusted = holm([paired.p for paired in results])
    behind = [
        f"{_name(pool)} ({_score(pool):.1f} %)"
        for pool, paired, p in zip(systems, results, adjusted, strict=True)
        if p >= ALPHA or paired.difference <= 0
    ]
    control = _control(best, comparisons=len(systems))
    if len(systems) == 1:
        text = f"{_name(systems[0])} is {'not ' if behind else ''}significantly better than {control}."
    elif not behind:
        text = f"Every run is significantly better than {control}."
    elif len(behind) == len(systems):
        text = f"No run is significantly better than {control}."
    else:
        text = f"Not significantly better than {control}: {', '.join(behind)}."
    return Note(text, caution=bool(behind))


def _out_of_reach(best: Pool, runs: int) -> str | None:
    """Return a note that no run could be significantly better, and what it would take; None if a run could.

    A run can only win questions that the control does not get right. A run that wins all of them has the smallest
    possible p: under McNemar's test and under sign flipping alike, the p of that many signs that all agree.
    """
    credits, haystacks = _credits(best), best[0].haystacks
    shared = share_haystacks(list(haystacks.values()))
    unit = "haystack" if shared else "question"
    units = independent_units(list(haystacks.values()))
    room = len({haystacks[name] if shared else name for name, credit in credits.items() if credit < 1})
    least = smallest_p(room)
    if runs * least < ALPHA:
        return None
    needed = next(number for number in count(1) if runs * smallest_p(number) < ALPHA)
    fewer = ceil(ALPHA / least) - 1
    remedy = f", or compare at most {count_of(fewer, 'run')} at a time" if fewer else ""
    family = f", adjusted for {runs} comparisons" if runs > 1 else ""
    return (
        f"No run can be shown to be better than {_control(best)}: even winning all that it leaves to win ({room} of "
        f"{count_of(units, unit)}) gives p = {min(1.0, runs * least):.2g}{family}. "
        f"At least {count_of(needed, unit)} must be left to win{remedy}."
    )


def _credits(pool: Pool) -> dict[str, float]:
    """Return the mean credit of each question over the repeats; a question that was not evaluated counts as 0."""
    per_run = [run.credits for run in pool]
    return {name: fsum(credits[name] or 0.0 for credits in per_run) / len(per_run) for name in per_run[0]}


def _score(pool: Pool) -> float:
    credits = _credits(pool)
    return fsum(credits.values()) / len(credits) * 100 if credits else 0.0


def _name(pool: Pool) -> str:
    first = pool[0].summary.run_id
    return first if len(pool) == 1 else f"{first} ({len(pool)} repeats pooled)"


def _control(pool: Pool, comparisons: int = 1) -> str:
    summary = pool[0].summary
    pooled = f", {len(pool)} repeats pooled" if len(pool) > 1 else ""
    adjusted = f"; p adjusted for {comparisons} comparisons" if comparisons > 1 else ""
    what = f"{summary.model} with memory {summary.memory}, {_score(pool):.1f} %{pooled}{adjusted}"
    return f"the best trivial control, {summary.run_id} ({what})"
