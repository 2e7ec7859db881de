"""Test every memory of a comparison against its best trivial control.

These tests form a family of their own, apart from the table: k memories against one control, adjusted for k comparisons
(Holm 1979).
"""

from collections.abc import Mapping, Sequence
from itertools import count
from math import fsum
from typing import Any

from longmemeval.pipeline.compare.repeats import Pool
from longmemeval.pipeline.compare.sentences import Sentence
from longmemeval.statistics.paired import compare_credits, holm
from longmemeval.statistics.power import ALPHA
from longmemeval.statistics.resampling import share_haystacks, smallest_p

Credits = Mapping[str, float | None]


def floor_sentence(pools: Sequence[Pool], credits: Mapping[str, Credits]) -> Sentence | None:
    """Say which memories are significantly better than the best trivial control, or that none can be.

    Args:
        pools: the configurations, over the same questions, graded by the same judge.
        credits: the credits of each by question, by the id of its first run.

    Returns:
        None if no run is a trivial control, or all runs are controls.
    """
    floors = [pool for pool in pools if pool[0].summary.control == "floor"]
    memories = [pool for pool in pools if pool[0].summary.control is None]
    if not floors or not memories:
        return None
    best = max(floors, key=lambda pool: _total(credits[pool[0].id]))
    base, haystacks = credits[best[0].id], best[0].haystacks
    values: dict[str, Any] = {"c": _total(base) / len(base), "m": len(memories)}
    runs = {"C": (best[0].id,)}
    if room := _out_of_reach(base, haystacks, len(memories)):
        return Sentence("control-out-of-reach", values | room, runs, "caution")
    own = [run.credits for run in best]
    results = [compare_credits([run.credits for run in pool], own, haystacks) for pool in memories]
    adjusted = holm([paired.p for paired in results])
    behind = tuple(
        pool[0].id
        for pool, paired, p in zip(memories, results, adjusted, strict=True)
        if p >= ALPHA or paired.difference <= 0
    )
    if not behind:
        return Sentence("all-better", values, runs)
    if len(behind) == len(memories):
        return Sentence("no-memory-helps", values, runs, "caution")
    return Sentence("memories-not-better", values, {**runs, "names": behind}, "caution")


def _out_of_reach(credits: Credits, haystacks: Mapping[str, str], memories: int) -> dict[str, Any] | None:
    """Return what the control leaves to win and what it would take, if no memory could be significantly better.

    A memory can only win questions that the control does not get right. One that wins all of them has the smallest
    possible p: under McNemar's test and under sign flipping alike, the p of that many signs that all agree.
    """
    shared = share_haystacks(list(haystacks.values()))
    left = {haystacks[name] if shared else name for name, credit in credits.items() if (credit or 0.0) < 1}
    if memories * smallest_p(len(left)) < ALPHA:
        return None
    needed = next(number for number in count(1) if memories * smallest_p(number) < ALPHA)
    return {"room": (len(left), "haystack" if shared else "question"), "q": needed}


def _total(credits: Credits) -> float:
    return fsum(credit or 0.0 for credit in credits.values())
