"""Paired comparison of two runs over the same questions: the difference, and whether it is more than noise."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from operator import sub
from typing import Literal

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.statistics.resampling import RESAMPLES, paired_bootstrap, share_haystacks, sign_flip_p

PairedTest = Literal["exact McNemar", "sign-flip permutation", "sign-flip permutation over haystacks"]


class Paired(Struct, frozen=True, kw_only=True):
    """Run `a` minus run `b`; fractions between -1 and 1, not rounded. A question is right if its score is 1."""

    n: int
    """Number of questions; one that was not evaluated scores 0."""
    difference: float
    """Mean score of `a` minus mean score of `b`: positive where `a` is ahead."""
    interval: tuple[float, float]
    """Bootstrap interval of `difference`, over haystacks if questions share them."""
    both: int
    """Number of questions that both runs get right."""
    a_only: int
    b_only: int
    neither: int
    mcnemar_p: float | None
    """P value of the exact McNemar test, even if haystacks are shared; None if a score is neither 0 nor 1."""
    test: PairedTest
    """McNemar's for labels of independent questions, else the permutation test, which requires neither."""
    p: float
    """P value of `test`, two-sided, for this pair alone: see `holm`."""


def compare_pairs(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    haystacks: Mapping[str, str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Paired:
    """Compare two runs question by question, `a` minus `b`.

    Args:
        a: score by question id, between 0 and 1 (labels: 0 and 1, or False and True); None: not evaluated, counts 0.
        b: scores of the same questions by the other run.
        haystacks: question id to haystack id, if questions share haystacks; others have their own.
        resamples: draws of the bootstrap and of the permutation test.
        seed: seed of both.
        confidence: confidence of the interval, between 0 and 1.

    Raises:
        HarnessError: the two runs are over different questions.
    """
    if odd := sorted(a.keys() ^ b.keys()):
        raise HarnessError(
            f"The two runs are over different questions: {len(odd)} of them are in one run only",
            where=f"question {odd[0]!r} first",
            fix="Compare runs of the same data set and the same selection of questions",
        )
    questions = sorted(a)
    scores_a, scores_b = ([float(one[name] or 0) for name in questions] for one in (a, b))
    clusters = [haystacks.get(one, one) for one in questions]
    differences = list(map(sub, scores_a, scores_b))
    right = Counter(zip([one == 1 for one in scores_a], [one == 1 for one in scores_b], strict=True))
    a_only, b_only = right[True, False], right[False, True]
    labels_only = {*scores_a, *scores_b} <= {0.0, 1.0}
    mcnemar_p = mcnemar(a_only, b_only) if labels_only else None
    shared = share_haystacks(clusters)
    test: PairedTest
    if mcnemar_p is not None and not shared:
        test, p = "exact McNemar", mcnemar_p
    else:
        test = "sign-flip permutation over haystacks" if shared else "sign-flip permutation"
        p = sign_flip_p(differences, clusters, resamples=resamples, seed=seed)
    return Paired(
        n=len(questions),
        difference=fsum(differences) / len(questions) if questions else 0.0,
        interval=paired_bootstrap(differences, clusters, resamples=resamples, seed=seed, confidence=confidence),
        both=right[True, True],
        a_only=a_only,
        b_only=b_only,
        neither=right[False, False],
        mcnemar_p=mcnemar_p,
        test=test,
        p=p,
    )


def mcnemar(a_only: int, b_only: int) -> float:
    """Return the two-sided p of the exact test of McNemar (1947): the binomial test of the discordant pairs.

    Args:
        a_only: number of questions only one run gets right.
        b_only: number of questions only the other gets right.

    Returns:
        1 if there are no discordant pairs.
    """
    # Not scipy's: importing it takes most of a second, which every comparison would wait for.
    n = a_only + b_only
    tail = ways = 1
    for k in range(min(a_only, b_only)):
        ways = ways * (n - k) // (k + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for multiple testing (Holm 1979): calling those below alpha real errs at all with at most alpha.

    Returns:
        In the order given, each at least its `p_values` and at most 1.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
