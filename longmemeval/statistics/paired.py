"""Paired comparison of two configurations over the same questions: one test, and the interval that belongs to it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.power import design_effect
from longmemeval.statistics.resampling import RESAMPLES, share_haystacks, sign_flip_interval, sign_flip_p

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PairedTest = Literal["exact McNemar", "sign-flip permutation", "sign-flip permutation over haystacks"]
Credits = Mapping[str, float | None]
"""Score by question id, between 0 and 1 (labels: 0 and 1); None: not evaluated, counts as 0."""
_MANY_QUESTIONS, _NEARLY_ALL = 200, 0.9
"""With unequal numbers of repeats, p is exact enough from so many questions on, up to so high a score."""


class Paired(Struct, frozen=True, kw_only=True):
    """Run `a` minus run `b`; fractions between -1 and 1, not rounded. A question is right if its score is 1."""

    n: int
    """Number of questions; one that was not evaluated scores 0."""
    difference: float
    """Mean score of `a` minus mean score of `b`: positive where `a` is ahead."""
    interval: tuple[float, float]
    """Interval of `difference` that belongs to `test`: it excludes 0 exactly where `p` is below 0.05."""
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
    units: int
    """Number of units the test is over: questions, or the haystacks that questions share."""
    squared: float
    """Mean squared difference; for labels, the share of questions that only one of the two gets right."""
    design_effect: float
    """Factor by which shared haystacks multiply the variance of `difference`; 1 for independent questions."""
    approximate: bool = False
    """True if unequal numbers of repeats make `p` approximate: a mean of more repeats is less noisy."""


def compare_credits(
    a: Sequence[Credits],
    b: Sequence[Credits],
    haystacks: Mapping[str, str],
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Paired:
    """Compare two configurations question by question, `a` minus `b`; repeats are pooled before anything else.

    Args:
        a: the credits of each repeat of one configuration.
        b: those of the other, over the same questions.
        haystacks: question id to haystack id, if questions share haystacks; others have their own.
        resamples: patterns that the permutation test draws.
        confidence: confidence of the interval, between 0 and 1.

    Raises:
        HarnessError: the two are over different questions.
    """
    if odd := sorted(a[0].keys() ^ b[0].keys()):
        raise HarnessError(
            f"The two runs are over different questions: {len(odd)} of them are in one run only",
            where=f"question {odd[0]!r} first",
            fix="Compare runs of the same dataset and the same selection of questions",
        )
    questions = sorted(a[0])
    clusters = tuple(haystacks.get(question, question) for question in questions)
    first, second = _mean_scores(a, questions), _mean_scores(b, questions)
    differences = first - second
    shared, n = share_haystacks(clusters), len(questions)
    right_a, right_b = first == 1, second == 1
    a_only, b_only = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    both = int((right_a & right_b).sum())
    labels = bool((right_a | (first == 0)).all() and (right_b | (second == 0)).all())
    mcnemar_p = mcnemar(a_only, b_only) if labels else None
    test: PairedTest
    if mcnemar_p is not None and not shared:
        test, p = "exact McNemar", mcnemar_p
        interval = label_difference_interval(a_only, b_only, n, confidence) if n else (-1.0, 1.0)
    else:
        test = "sign-flip permutation over haystacks" if shared else "sign-flip permutation"
        p = sign_flip_p(differences, clusters, resamples=resamples)
        interval = sign_flip_interval(differences, clusters, p, resamples=resamples, confidence=confidence)
    highest = max(float(scores.mean()) for scores in (first, second)) if n else 0.0
    return Paired(
        n=n,
        difference=fsum(differences.tolist()) / n if n else 0.0,
        interval=interval,
        both=both,
        a_only=a_only,
        b_only=b_only,
        neither=n - both - a_only - b_only,
        mcnemar_p=mcnemar_p,
        test=test,
        p=p,
        units=len(set(clusters)) if shared else n,
        squared=fsum((differences * differences).tolist()) / n if n else 0.0,
        design_effect=design_effect([differences.tolist()], clusters),
        approximate=len(a) != len(b) and (n < _MANY_QUESTIONS or highest > _NEARLY_ALL),
    )


def compare_pairs(a: Credits, b: Credits, haystacks: Mapping[str, str], *, resamples: int = RESAMPLES) -> Paired:
    """Compare two runs, none of them repeated, as `compare_credits` does."""
    return compare_credits([a], [b], haystacks, resamples=resamples)


def _mean_scores(repeats: Sequence[Credits], questions: Sequence[str]) -> "NDArray[np.float64]":
    """Return the mean score of each question over the repeats, in their order; what was not evaluated scores 0."""
    import numpy as np

    rows = [[credits[name] or 0 for name in questions] for credits in repeats]
    scores: NDArray[np.float64] = np.array(rows, dtype=np.float64).mean(axis=0)
    return scores


@lru_cache(maxsize=512)
def label_difference_interval(a_only: int, b_only: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a difference of two paired proportions that belongs to McNemar's exact test.

    The outer hull of Tango's score interval and of the conditional exact one; without discordant pairs Tango's alone.
    The score interval alone is a little short where few pairs are discordant.

    Args:
        a_only: number of questions only one run gets right.
        b_only: number of questions only the other gets right.
        n: number of questions, at least 1.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound of the first minus the second, between -1 and 1.
    """
    if a_only < b_only:  # So that turning the two runs round turns the interval round, to the last digit.
        low, high = label_difference_interval(b_only, a_only, n, confidence)
        return 0.0 - high, 0.0 - low
    low, high = tango_interval(a_only, b_only, n, confidence)
    discordant = a_only + b_only
    if discordant:
        shares = clopper_pearson(a_only, discordant, confidence)
        exact = [(2 * share - 1) * discordant / n for share in shares]
        low, high = min(low, exact[0]), max(high, exact[1])
    return low, high


def tango_interval(a_only: int, b_only: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a difference of two paired proportions (Tango 1998, Statistics in Medicine 17:891).

    The differences d with |a_only - b_only - n d| / sqrt(n (2 q + d (1 - d))) at most z, where q, the probability that
    only the second is right, is its maximum likelihood estimate given d.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)

    def score(d: float) -> float:
        linear = -a_only - b_only + (2 * n - a_only + b_only) * d
        constant = -b_only * d * (1 - d)
        q = (sqrt(max(0.0, linear * linear - 8 * n * constant)) - linear) / (4 * n)
        variance = n * (2 * q + d * (1 - d))
        numerator = a_only - b_only - n * d
        if variance <= 0:
            return 0.0 if not numerator else float("inf") if numerator > 0 else float("-inf")
        return numerator / sqrt(variance)

    def root(target: float, low: float, high: float) -> float:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if score(middle) > target else (low, middle)
        return (low + high) / 2

    observed = (a_only - b_only) / n
    return root(z, -1.0, observed), root(-z, observed, 1.0)


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a proportion (Clopper and Pearson 1934): tails of (1 - confidence) / 2 each."""
    import numpy as np

    tail = (1 - confidence) / 2
    counts = np.arange(n + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((n - counts[:-1]) / (counts[:-1] + 1)))])

    def at_least(share: float) -> float:
        return float(np.exp(ways + counts * np.log(share) + (n - counts) * np.log1p(-share))[successes:].sum())

    def at_most(share: float) -> float:
        return float(np.exp(ways + counts * np.log(share) + (n - counts) * np.log1p(-share))[: successes + 1].sum())

    low, high = 0.0, 1.0
    if successes:
        below, above = 0.0, successes / n
        for _ in range(50):
            middle = (below + above) / 2
            below, above = (middle, above) if at_least(middle) < tail else (below, middle)
        low = (below + above) / 2
    if successes < n:
        below, above = successes / n, 1.0
        for _ in range(50):
            middle = (below + above) / 2
            below, above = (below, middle) if at_most(middle) < tail else (middle, above)
        high = (below + above) / 2
    return low, high


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


# Agreement of two judges on the same answers.


class Concordance(Struct, frozen=True):
    """Two judges' labels on a group of questions."""

    n: int
    """Number of questions that both judges evaluated."""
    not_evaluated: int
    """Number of questions in the group that at least one of them did not evaluate."""
    agreed: float | None
    """Share of the `n` with equal labels; None without any."""
    kappa: float | None
    """Cohen's kappa; None if both judges give one and the same label throughout, or nothing was evaluated."""


class Agreement(Struct, frozen=True):
    """Two judges' labels on the answers of one run."""

    overall: Concordance
    by_type: dict[str, Concordance]
    """Concordance by question type, in alphabetical order."""
    disputed: tuple[str, ...]
    """Ids of the questions with different labels, sorted."""


def agreement(
    labels_a: Mapping[str, bool | None], labels_b: Mapping[str, bool | None], types: Mapping[str, str]
) -> Agreement:
    """Compare the labels of two judges.

    Args:
        labels_a: labels of one judge by question id; None or missing: not evaluated.
        labels_b: labels of the other judge.
        types: question type by question id, for all questions; labels of other questions are ignored.
    """
    pairs = {question: (labels_a.get(question), labels_b.get(question)) for question in sorted(types)}
    groups: dict[str, list[tuple[bool | None, bool | None]]] = {name: [] for name in sorted(set(types.values()))}
    for question, pair in pairs.items():
        groups[types[question]].append(pair)
    return Agreement(
        overall=_concordance(pairs.values()),
        by_type={name: _concordance(group) for name, group in groups.items()},
        disputed=tuple(question for question, (a, b) in pairs.items() if a is not None and b is not None and a != b),
    )


def kappa_interval(labels: Sequence[tuple[bool, bool]], clusters: Sequence[str]) -> tuple[float, float] | None:
    """Return the 95% CI of Cohen's kappa.

    The large-sample variance (Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72:323) is the sum of the squared
    influences of the answers, those of answers that share a haystack added up first. It says how many independent
    answers the observed agreement is worth, given the agreement by chance; the bounds are kappa at Wilson's bounds of
    the agreement of so many. So near-complete agreement has an interval with a width; complete agreement, which has no
    variance, is worth as many answers as there are units.

    Args:
        labels: the two judges' labels of each answer.
        clusters: haystack, or question, of each answer.

    Returns:
        None where kappa is (see `_concordance`).
    """
    n, kappa = len(labels), _concordance(labels).kappa
    if kappa is None:
        return None
    observed, a, b = (sum(values) / n for values in ([a == b for a, b in labels], *zip(*labels, strict=True)))
    chance = a * b + (1 - a) * (1 - b)
    influence: dict[str | int, float] = {}
    shared = share_haystacks(clusters)
    for place, (label_a, label_b) in enumerate(labels):
        unit = clusters[place] if shared else place
        moved = (2 * b - 1) * (label_a - a) + (2 * a - 1) * (label_b - b)
        own = ((label_a == label_b) - observed - moved * (1 - observed) / (1 - chance)) / (1 - chance)
        influence[unit] = influence.get(unit, 0.0) + own
    variance = fsum(value * value for value in influence.values()) / n**2 * (1 - chance) ** 2
    worth = observed * (1 - observed) / variance if variance > 0 else len(influence)
    low, high = wilson_interval(observed * worth, worth)
    return max(-1.0, (low - chance) / (1 - chance)), (high - chance) / (1 - chance)


def _concordance(pairs: Iterable[tuple[bool | None, bool | None]]) -> Concordance:
    """Compare labels, with kappa as in Cohen (1960): (observed - expected) / (1 - expected).

    The expected agreement is that of each judge's own share of right labels. All numbers are integers, n² times the
    shares, so that "expected is 1" is exact.
    """
    pairs = list(pairs)
    judged = [(a, b) for a, b in pairs if a is not None and b is not None]
    n, agreed = len(judged), sum(a == b for a, b in judged)
    right_a, right_b = sum(a for a, _ in judged), sum(b for _, b in judged)
    expected = right_a * right_b + (n - right_a) * (n - right_b)
    return Concordance(
        n=n,
        not_evaluated=len(pairs) - n,
        agreed=agreed / n if n else None,
        kappa=(n * agreed - expected) / (n * n - expected) if expected < n * n else None,
    )
