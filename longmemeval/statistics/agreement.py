"""Agreement of two judges on the same answers."""

from collections.abc import Iterable, Mapping

from msgspec import Struct


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
