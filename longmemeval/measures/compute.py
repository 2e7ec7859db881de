"""Computation of the retrieval measures, one pure function each; `notation` defines them.

Shared rules. In a ranking shorter than the cutoff, the missing ranks find nothing. A repeated id keeps its rank but
finds nothing new: only its first occurrence counts. A cutoff beyond the corpus is the corpus. A gold id that the corpus
lacks stays in the denominator. `ndcg_official` alone looks at items, not ids: an id counts as often as the corpus holds
it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import log2
from typing import Literal

from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Measure

EmptyGold = Literal["official", "undefined", "zero"]
"""The score of a question without gold: that of the official code, None, or 0."""


def compute(
    measure: Measure,
    ranked: Sequence[str],
    gold: Collection[str],
    corpus: Sequence[str] | None = None,
    *,
    empty_gold: EmptyGold = "undefined",
) -> float | None:
    """Score one ranking.

    Args:
        measure: the measure to compute.
        ranked: ids, best first.
        gold: the ids that should be found; repeats do not matter.
        corpus: the ids of everything that could have been ranked, with repeats. Required by `ndcg_official`; for the
            others it caps the cutoff.
        empty_gold: for a question without gold: `undefined` gives None; `zero` gives 0; `official` gives what
            the code of Wu et al. 2025 does (`recall_any` 0, `recall_all` 1, `ndcg_official` 0) and None for the
            measures it does not have.

    Returns:
        A fraction between 0 and 1, or None when the measure has no value.

    Raises:
        HarnessError: the measure needs a corpus and none is given, or it is a measure of changes.
    """
    if measure.kind.of_changes:
        what = f"{measure} is computed from which messages overrule which, not from evidence alone"
        raise HarnessError(what, fix="Use compute_change of longmemeval.measures.changes")
    if not gold:
        if empty_gold == "zero":
            return 0.0
        if empty_gold == "undefined" or not measure.kind.official:
            return None
    if measure.cutoff is None:
        return reciprocal_rank(ranked, gold)
    if measure.name == "ndcg_official":
        if corpus is None:
            raise HarnessError(f"{measure} needs the ids of the whole corpus", fix="Pass them, or compute ndcg instead")
        return ndcg_official(ranked, gold, corpus, measure.cutoff)
    cutoff = measure.cutoff if corpus is None else min(measure.cutoff, len(corpus))
    return _AT_CUTOFF[measure.name](ranked, gold, cutoff)


def recall_any(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> float:
    """Return 1 if any gold id is among the first `cutoff`, else 0; 0 without gold."""
    return float(any(_new_gold(ranked, gold, cutoff)))


def recall_all(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> float:
    """Return 1 if all gold ids are among the first `cutoff`, else 0; 1 without gold, as in the official code."""
    return float(set(gold) <= set(ranked[:cutoff]))


def recall(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> float:
    """Return the share of the gold ids that is among the first `cutoff`; `gold` must not be empty."""
    return sum(_new_gold(ranked, gold, cutoff)) / len(set(gold))


def precision(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> float:
    """Return the share of the first `cutoff` places that hold a new gold id; 0 at a cutoff of 0."""
    return sum(_new_gold(ranked, gold, cutoff)) / cutoff if cutoff else 0.0


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return one over the rank, from 1, of the first gold id; 0 if none is ranked."""
    wanted = frozenset(gold)
    return next((1 / rank for rank, identifier in enumerate(ranked, start=1) if identifier in wanted), 0.0)


def ndcg(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> float:
    """Return binary nDCG with the discount 1/log2(rank+1); 0 at a cutoff of 0. `gold` must not be empty."""
    ideal = _dcg([True] * min(cutoff, len(set(gold))))
    return _dcg(_new_gold(ranked, gold, cutoff)) / ideal if ideal else 0.0


def ndcg_official(ranked: Sequence[str], gold: Collection[str], corpus: Sequence[str], cutoff: int) -> float:
    """Return the nDCG of Wu et al. 2025, equal to their code's to the last bit.

    Every item of the corpus that has a gold id counts, so an id counts as often as the corpus holds it; a ranking that
    repeats it more often gains nothing. 0 when the corpus holds no gold.
    """
    wanted = frozenset(gold)
    ideal = dcg_official(sorted((identifier in wanted for identifier in corpus), reverse=True), cutoff)
    missing = Counter(identifier for identifier in corpus if identifier in wanted)
    return dcg_official(_gains(ranked, missing, cutoff), cutoff) / ideal if ideal else 0.0


def dcg_official(relevances: Sequence[float], cutoff: int) -> float:
    """Return the DCG of Wu et al. 2025: discounts 1, 1, 1/log2(3), 1/log2(4), …; 0 without relevances."""
    # numpy's log2 and its order of summation, which differ from the standard library's in the last bit.
    import numpy as np

    top = np.asarray(relevances[:cutoff], dtype=np.float64)
    if not top.size:
        return 0.0
    return float(top[0] + np.sum(top[1:] / np.log2(np.arange(2, top.size + 1))))


def _new_gold(ranked: Sequence[str], gold: Collection[str], cutoff: int) -> list[bool]:
    """Return, for each of the first `cutoff` ranks, whether it is the first to hold some gold id."""
    return _gains(ranked, Counter(set(gold)), cutoff)


def _gains(ranked: Sequence[str], missing: Counter[str], cutoff: int) -> list[bool]:
    """Return, for each of the first `cutoff` ranks, whether its item is still `missing`; decrement `missing`."""
    gains = []
    for identifier in ranked[:cutoff]:
        gains.append(missing[identifier] > 0)
        missing[identifier] -= 1
    return gains


def _dcg(gains: Sequence[bool]) -> float:
    return sum(1 / log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)


_AT_CUTOFF: Mapping[str, Callable[[Sequence[str], Collection[str], int], float]] = {
    "recall_any": recall_any,
    "recall_all": recall_all,
    "recall": recall,
    "precision": precision,
    "ndcg": ndcg,
}
