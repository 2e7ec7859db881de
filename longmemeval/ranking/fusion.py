"""Combining scores, and ordering by scores."""

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


def order(scores: Scores) -> NDArray[np.int64]:
    """Return the positions of the units, best first; equal scores in the history's order."""
    return np.argsort(-scores, kind="stable")
