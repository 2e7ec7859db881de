"""Retrieval measures: declared in `notation` (and here), computed in `compute`, averaged in `aggregate`.

Measures that only one benchmark's own code computes are in its folder.
"""

from longmemeval.measures.notation import (
    MEASURES,
    Measure,
    MeasureKind,
    current_first,
    current_recall,
    mrr,
    ndcg,
    ndcg_official,
    precision,
    recall,
    recall_all,
    recall_any,
    stale_first,
    stale_shown,
)

__all__ = [
    "MEASURES",
    "Measure",
    "MeasureKind",
    "current_first",
    "current_recall",
    "mrr",
    "ndcg",
    "ndcg_official",
    "precision",
    "recall",
    "recall_all",
    "recall_any",
    "stale_first",
    "stale_shown",
]
