"""Abstention: how well a run abstains, and how well a threshold on the recall score would do."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import fsum, inf, nextafter

from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.judges.offline.refusal import abstains_in_record, rules_sha256
from longmemeval.records import Gold
from longmemeval.statistics.intervals import label_interval

_BINS = 10
_BY_THRESHOLD = "best recall score below the threshold"


class Abstaining(Struct, frozen=True):
    """Abstention scored as a search for the unanswerable questions; fractions between 0 and 1, not rounded."""

    abstained: int
    """Questions on which the run abstained."""
    unanswerable: int
    """Questions on which it should have."""
    right: int
    """Unanswerable questions on which it did."""
    precision: float | None
    """`right / abstained`; None without abstentions."""
    recall: float | None
    """`right / unanswerable`; None without unanswerable questions."""
    f1: float | None
    """`2 right / (abstained + unanswerable)`: 0 where the run never abstains, None without unanswerable questions."""
    method: str
    """The rule for calling an answer an abstention: those of `refusal.abstains`, by their hash, or a threshold."""
    precision_interval: tuple[float, float] | None = None
    """95% CI of `precision`, over haystacks where questions share them; None of a threshold."""
    recall_interval: tuple[float, float] | None = None
    """95% CI of `recall`, under the same conditions."""


class HeldOut(Struct, frozen=True):
    """Results of a threshold on the questions it was not chosen on."""

    n: int
    abstaining: Abstaining
    accuracy: float | None
    """Accuracy with the threshold. Declining an unanswerable question earns what this judge gave the run's own answers
    that decline one, declining an answerable question likewise (nothing where no answer did); all other answers keep
    the judge's credit. None where `declining` is."""
    judged_accuracy: float
    """Accuracy of the same questions without it; both are mean scores where the judge gives scores."""
    declining: float | None = None
    """Mean credit of the run's answers that decline an unanswerable question; None if none of them was judged."""

    @property
    def pays(self) -> bool:
        """True unless this judge is known to give no credit for declining an unanswerable question."""
        return self.declining != 0

    @property
    def costs(self) -> bool:
        """True if the threshold is known to lower the score."""
        return self.accuracy is not None and self.accuracy < self.judged_accuracy


class ScoreBin(Struct, frozen=True):
    """Questions with neighbouring recall scores."""

    lowest: float
    highest: float
    n: int
    answerable: float
    """Share of the `n` that are answerable."""
    accuracy: float
    """Share of the `n` judged right; their mean score where the judge gives scores."""


class Calibration(Struct, frozen=True):
    """The relation between the best recall score of a question and its outcome."""

    threshold: float | None
    """Threshold below which abstaining gave the highest F1 on the half it was chosen on; None if that half has no
    unanswerable question with a score."""
    chosen_on: int
    """Number of questions in that half."""
    held_out: HeldOut | None
    """Results on the other half; None without a threshold or without such questions."""
    unscored: int
    """Number of questions without a score. They keep their label and are in no bin."""
    curve: tuple[ScoreBin, ...]
    """Up to ten bins of all questions with a score, equal in number to within one, lowest scores first."""


def abstaining(
    golds: Sequence[Gold], hypotheses: Mapping[str, str], haystacks: Mapping[str, str] | None = None
) -> Abstaining | None:
    """Count the answers that abstain as a whole.

    Args:
        golds: gold of all selected questions.
        hypotheses: question id to answer text; a question without an answer counts as not abstained.
        haystacks: question id to haystack id, if questions share haystacks; None: each has its own.

    Returns:
        None if no question is unanswerable and no answer abstains.
    """
    abstained = declined(hypotheses).intersection(gold.question_id for gold in golds)
    unanswerable = {gold.question_id for gold in golds if gold.abstention}
    if not abstained and not unanswerable:
        return None
    right = abstained & unanswerable
    return structs.replace(
        _abstaining(abstained, unanswerable, method()),
        precision_interval=_share_interval(abstained, right, haystacks or {}),
        recall_interval=_share_interval(unanswerable, right, haystacks or {}),
    )


def declined(hypotheses: Mapping[str, str]) -> set[str]:
    """Return the ids of the questions whose answer abstains as a whole."""
    return {question_id for question_id, hypothesis in hypotheses.items() if abstains_in_record(hypothesis)}


def method() -> str:
    """Return the name of the rules that tell whether an answer abstains, with a hash that changes with them."""
    return f"refusal-rules-{rules_sha256()[:8]}"


def by_other_rules(stored: Abstaining | None, again: Abstaining | None) -> bool:
    """Return whether `stored` was counted by another version of the rules, so that `again` may differ.

    Figures are missing only if no question is unanswerable and no answer abstains; the rules decide the latter.
    """
    if stored and again:
        return stored.method != again.method
    present = stored or again
    return present is not None and present.unanswerable == 0 and (stored is None or present.method != method())


def calibrate(
    scores: Mapping[str, float | None],
    unanswerable: Mapping[str, bool],
    credits: Mapping[str, float | None],
    declined: Collection[str] = (),
    *,
    seed: int = 0,
) -> Calibration:
    """Choose a threshold on one half of the questions and try it on the other.

    The halves hold equal shares of unanswerable questions, to within one; a hash of seed and id decides.

    Args:
        scores: `Answer.top_score` by question id; None or missing: no score, so the threshold does not touch it.
        unanswerable: by question id, of all selected questions.
        credits: question id to credit between 0 and 1 (labels: 0 or 1); None or missing: not evaluated, counts as 0.
        declined: ids of the questions whose answer abstains; their credits say what this judge gives for declining.
        seed: decides which questions are in which half.
    """
    scored = {
        question_id: score for question_id in sorted(unanswerable) if (score := scores.get(question_id)) is not None
    }
    half, other = _halves(unanswerable, seed)
    threshold = _best_threshold(half, scored, unanswerable)
    held_out = None
    if threshold is not None and other:
        below = {question_id for question_id in other if question_id in scored and scored[question_id] < threshold}
        declining = {
            kind: [
                value
                for question_id in declined
                if unanswerable[question_id] is kind and (value := credits.get(question_id)) is not None
            ]
            for kind in (False, True)
        }
        earned = {kind: _mean(values) if values else 0.0 for kind, values in declining.items()}
        held_out = HeldOut(
            n=len(other),
            abstaining=_abstaining(
                below, {question_id for question_id in other if unanswerable[question_id]}, _BY_THRESHOLD
            ),
            accuracy=(
                _mean(
                    earned[unanswerable[question_id]] if question_id in below else credits.get(question_id) or 0
                    for question_id in other
                )
                if declining[True]
                else None
            ),
            judged_accuracy=_mean(credits.get(question_id) or 0 for question_id in other),
            declining=earned[True] if declining[True] else None,
        )
    return Calibration(
        threshold=threshold,
        chosen_on=len(half),
        held_out=held_out,
        unscored=len(unanswerable) - len(scored),
        curve=_curve(scored, unanswerable, credits),
    )


def _abstaining(abstained: Collection[str], unanswerable: Collection[str], method: str) -> Abstaining:
    right = len(set(abstained).intersection(unanswerable))
    return Abstaining(
        abstained=len(abstained),
        unanswerable=len(unanswerable),
        right=right,
        precision=right / len(abstained) if abstained else None,
        recall=right / len(unanswerable) if unanswerable else None,
        f1=2 * right / (len(abstained) + len(unanswerable)) if unanswerable else None,
        method=method,
    )


def _share_interval(
    whole: Collection[str], part: Collection[str], haystacks: Mapping[str, str]
) -> tuple[float, float] | None:
    """Return the interval of the share `part` has in `whole`; None if `whole` is empty."""
    ids = sorted(whole)
    labels = [float(question_id in part) for question_id in ids]
    return label_interval(labels, [haystacks.get(question_id, question_id) for question_id in ids])[0] if ids else None


def _halves(unanswerable: Mapping[str, bool], seed: int) -> tuple[list[str], list[str]]:
    """Return the ids in two halves, each kind of question split evenly; an odd one goes to the first."""
    halves: tuple[list[str], list[str]] = ([], [])
    for kind in (False, True):
        ids = [question_id for question_id, value in unanswerable.items() if value is kind]
        ids.sort(key=lambda question_id: sha256_text(f"{seed}:{question_id}"))
        halves[0].extend(ids[0::2])
        halves[1].extend(ids[1::2])
    return halves


def _best_threshold(half: Sequence[str], scores: Mapping[str, float], unanswerable: Mapping[str, bool]) -> float | None:
    """Return the threshold of the highest F1, midway between two neighbouring scores or just above the highest.

    Among thresholds of equal F1, the one that abstains least; None if none has an F1 above 0.
    """
    total = sum(unanswerable[question_id] for question_id in half)
    ranked = sorted((scores[question_id], unanswerable[question_id]) for question_id in half if question_id in scores)
    best, threshold, right = 0.0, None, 0
    for below, (score, is_right) in enumerate(ranked, start=1):
        right += is_right
        following = ranked[below][0] if below < len(ranked) else nextafter(score, inf)
        f1 = 2 * right / (below + total) if total else 0.0
        if following > score and f1 > best:
            # The midpoint of neighbouring floats may round down to `score`, which must fall below the threshold.
            best, threshold = f1, max((score + following) / 2, nextafter(score, inf))
    return threshold


def _curve(
    scores: Mapping[str, float], unanswerable: Mapping[str, bool], credits: Mapping[str, float | None]
) -> tuple[ScoreBin, ...]:
    ranked = sorted(scores, key=lambda question_id: (scores[question_id], question_id))
    bins = min(_BINS, len(ranked))
    edges = [len(ranked) * index // bins for index in range(bins + 1)] if bins else [0]
    return tuple(
        ScoreBin(
            lowest=scores[ranked[start]],
            highest=scores[ranked[end - 1]],
            n=end - start,
            answerable=_mean(not unanswerable[question_id] for question_id in ranked[start:end]),
            accuracy=_mean(credits.get(question_id) or 0 for question_id in ranked[start:end]),
        )
        for start, end in pairwise(edges)
    )


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return fsum(values) / len(values)
