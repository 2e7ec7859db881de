"""Retrieval measures: declared in `notation` (and here), computed in `compute`, averaged in `aggregate`.

What only one benchmark's own code does is in its folder.
"""

from longmemeval.measures.notation import (
    MEASURES,
    Measure,
    MeasureKind,
    mrr,
    ndcg,
    ndcg_official,
    precision,
    recall,
    recall_all,
    recall_any,
)

__all__ = [
    "MEASURES",
    "Measure",
    "MeasureKind",
    "mrr",
    "ndcg",
    "ndcg_official",
    "precision",
    "recall",
    "recall_all",
    "recall_any",
]
