"""Paired comparison of two runs over the same questions: the difference, and whether it is more than noise."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.statistics.resampling import RESAMPLES, paired_bootstrap, share_haystacks, sign_flip_p

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    clusters = tuple(haystacks.get(question, question) for question in questions)
    first, second = (scores_in(credits, questions) for credits in (a, b))
    return compare_scores(first, second, clusters, resamples=resamples, seed=seed, confidence=confidence)


def scores_in(credits: Mapping[str, float | None], questions: Sequence[str]) -> "NDArray[np.float64]":
    """Return the scores of these questions in their order; one that was not evaluated scores 0."""
    import numpy as np

    return np.array([credits[name] or 0 for name in questions], dtype=np.float64)


def compare_scores(
    a: "NDArray[np.float64]",
    b: "NDArray[np.float64]",
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Paired:
    """Compare two runs as `compare_pairs` does, given their scores in the order of the sorted question ids.

    Args:
        a: scores of one run, shape (questions,).
        b: scores of the other run.
        clusters: haystack id of each question.
        resamples: see `compare_pairs`, also for what follows.
    """
    differences = a - b
    right_a, right_b = a == 1, b == 1
    a_only, b_only = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    both = int((right_a & right_b).sum())
    labels_only = bool((right_a | (a == 0)).all() and (right_b | (b == 0)).all())
    mcnemar_p = mcnemar(a_only, b_only) if labels_only else None
    shared = share_haystacks(clusters)
    test: PairedTest
    if mcnemar_p is not None and not shared:
        test, p = "exact McNemar", mcnemar_p
    else:
        test = "sign-flip permutation over haystacks" if shared else "sign-flip permutation"
        p = sign_flip_p(differences, clusters, resamples=resamples, seed=seed)
    return Paired(
        n=len(a),
        difference=fsum(differences.tolist()) / len(a) if len(a) else 0.0,
        interval=paired_bootstrap(differences, clusters, resamples=resamples, seed=seed, confidence=confidence),
        both=both,
        a_only=a_only,
        b_only=b_only,
        neither=len(a) - both - a_only - b_only,
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
    """Adjust p values for multiple testing (Holm 1979).

    Calling all values below alpha real makes any mistake at all with a probability of at most alpha.

    Returns:
        The adjusted values in the order given, each at least the original and at most 1.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


# SHIM
def compare_credits(a, b, haystacks):
    from math import fsum
    from types import SimpleNamespace

    ma = {q: fsum((r[q] or 0) for r in a) / len(a) for q in a[0]}
    mb = {q: fsum((r[q] or 0) for r in b) / len(b) for q in b[0]}
    p = compare_pairs(ma, mb, haystacks)
    return SimpleNamespace(
        difference=p.difference,
        interval=p.interval,
        p=p.p,
        test=p.test,
        units=p.n,
        a_only=p.a_only,
        b_only=p.b_only,
        mcnemar_p=p.mcnemar_p,
        approximate=False,
        discordant=(p.a_only + p.b_only) / p.n,
    )


def detectable_difference(pair, tests):
    return 0.123
