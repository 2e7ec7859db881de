"""Combining scores, and ordering by scores."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longmemeval.ranking.history import Scores

Fusion = Literal["scores", "ranks"]

_RRF_K = 60


def min_max(scores: Scores) -> Scores:
    """Scale `scores` to [0, 1] over all units; 0 everywhere if they are all equal."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def reciprocal_rank(scores: Scores) -> Scores:
    """Return reciprocal-rank values 1 / (60 + rank) (Cormack et al. 2009), scaled so that the best unit has 1."""
    ranks = np.empty(len(scores))
    ranks[order(scores)] = np.arange(1, len(scores) + 1)
    return (_RRF_K + 1) / (_RRF_K + ranks)


def fuse(parts: Sequence[tuple[float, Scores]], fusion: Fusion) -> Scores:
    """Return the weighted sum of the parts, each made comparable by its scores or by its ranks."""
    comparable = min_max if fusion == "scores" else reciprocal_rank
    fused: Scores = np.sum([weight * comparable(scores) for weight, scores in parts], axis=0)
    return fused


def session_votes(places: NDArray[np.int64], threads: NDArray[np.int64], voters: int) -> list[tuple[int, float]]:
    """Return the number of each session and its votes, best first.

    Each of the first `voters` units gives its session 1 / log2(rank + 1), the weight of a rank in discounted
    cumulative gain (Järvelin and Kekäläinen 2002). Sessions without votes follow in the order of their best units.

    Args:
        places: positions of units, best first.
        threads: number of the session of each unit, by position.
        voters: number of units that vote.
    """
    votes: dict[int, float] = {}
    for rank, thread in enumerate(threads[places].tolist(), start=1):
        votes[thread] = votes.get(thread, 0.0) + (1 / math.log2(rank + 1) if rank <= voters else 0.0)
    return sorted(votes.items(), key=lambda pair: -pair[1])


def order(scores: Scores) -> NDArray[np.int64]:
    """Return the positions of the units, best first; equal scores in the history's order."""
    return np.argsort(-scores, kind="stable")
