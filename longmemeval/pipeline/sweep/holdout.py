"""Choose the best configuration on one part of the haystacks, and score it on the others.

The best of many looks better than it is on the questions that it was chosen by. Cawley and Talbot (2010,
https://jmlr.org/papers/v11/cawley10a.html) call its loss elsewhere selection bias.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from longmemeval.core.text.figures import bounds, count_of, percent, points, signed
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.repeats import pool_repeats
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.statistics.intervals import score_interval


class Holdout(Struct, frozen=True):
    """The best run on the haystacks to choose by, and its score on the held-out ones; fractions."""

    winner: str
    """The id of the run, of its first repeat."""
    tied: tuple[str, ...]
    """Runs with the same score where it was chosen; the first in the file's order is taken."""
    chosen_by: int
    """Number of questions to choose by."""
    held_out: int
    haystacks: tuple[int, int]
    """Number of haystacks to choose by, and of held-out ones."""
    score: float
    """Score of the winner where it was chosen."""
    held_out_score: float
    interval: tuple[float, float]
    """95% CI of `held_out_score`."""
    others: float
    """Change of the mean of all configurations from one part to the other: how much harder the held-out part is."""
    best: str
    """The run that would have been best on the held-out part."""
    best_score: float

    @property
    def lost(self) -> float:
        """Loss of the winner beyond the loss of all configurations; negative: it gains."""
        return self.score - self.held_out_score + self.others


def split(units: Mapping[str, str], share: float, seed: int) -> frozenset[str]:
    """Return the ids of the questions that are held out, by whole haystacks.

    Args:
        units: haystack, or another group that is resampled whole, by question id.
        share: share of the haystacks to hold out, between 0 and 1.
        seed: seed of the choice.

    Raises:
        HarnessError: there is only one haystack.
    """
    names = sorted(set(units.values()))
    if len(names) < 2:
        raise HarnessError(
            "A sweep over one haystack has none to hold out",
            fix="Leave `holdout` out, or select questions about several haystacks",
        )
    random.Random(f"holdout {seed}").shuffle(names)
    held = set(names[: min(max(round(len(names) * share), 1), len(names) - 1)])
    return frozenset(question_id for question_id, unit in units.items() if unit in held)


def held_out(graded: Sequence[Evaluation], held: Collection[str]) -> Holdout | None:
    """Return the score on held-out questions of the run that is best elsewhere; None if there is no choice.

    Controls and runs that read the gold evidence are not chosen; repeats of one configuration count as one, by their
    mean.

    Args:
        graded: runs over the same questions, graded by one judge.
        held: ids of the held-out questions.
    """
    runs = [run for run in graded if run.summary.control is None and not run.summary.reads_gold]
    credits_by_run = {pool[0].id: _mean_credits(pool) for pool in pool_repeats(runs)}
    return chosen(credits_by_run, runs[0].haystacks, held) if len(credits_by_run) > 1 else None


def chosen(
    credits_by_run: Mapping[str, Mapping[str, float]], units: Mapping[str, str], held: Collection[str]
) -> Holdout:
    """Return the best of several runs by the questions that are not held out.

    Args:
        credits_by_run: credit of every question, between 0 and 1, by run id.
        units: haystack by question id.
        held: ids of the held-out questions.
    """
    rest = sorted(units.keys() - set(held))
    chosen_scores = {
        name: fmean(credits[question_id] for question_id in rest) for name, credits in credits_by_run.items()
    }
    held_scores = {
        name: fmean(credits[question_id] for question_id in sorted(held)) for name, credits in credits_by_run.items()
    }
    winner, best = (max(scores, key=scores.__getitem__) for scores in (chosen_scores, held_scores))
    return Holdout(
        winner=winner,
        tied=tuple(name for name, score in chosen_scores.items() if score == chosen_scores[winner] and name != winner),
        chosen_by=len(rest),
        held_out=len(held),
        haystacks=(
            len({units[question_id] for question_id in rest}),
            len({units[question_id] for question_id in held}),
        ),
        score=chosen_scores[winner],
        held_out_score=held_scores[winner],
        interval=score_interval(
            [credits_by_run[winner][question_id] for question_id in sorted(held)],
            [units[question_id] for question_id in sorted(held)],
        ),
        others=fmean(held_scores.values()) - fmean(chosen_scores.values()),
        best=best,
        best_score=held_scores[best],
    )


def _mean_credits(pool: Sequence[Evaluation]) -> dict[str, float]:
    """Return the mean credit of each question over repeats; what is not evaluated counts as 0."""
    credits = [run.credits for run in pool]
    return {
        question_id: fmean(run_credits[question_id] or 0.0 for run_credits in credits) for question_id in credits[0]
    }


def holdout_line(found: Holdout) -> str:
    """Return the choice and its score in two or three sentences."""
    tied = f", as high as {', '.join(found.tied)}" if found.tied else ""
    chosen_questions, held_questions = (count_of(n, "question") for n in (found.chosen_by, found.held_out))
    on = f"{held_questions} held out ({count_of(found.haystacks[1], 'haystack')})"
    change = f"{points(abs(found.lost))} {'lost' if found.lost >= 0 else 'gained'} besides the change of all of them"
    better = (
        "no other does better there"
        if found.best_score == found.held_out_score
        else f"{found.best} would have {percent(found.best_score)} there"
    )
    return (
        f"Chosen on {chosen_questions} ({count_of(found.haystacks[0], 'haystack')}): {found.winner}, "
        f"{percent(found.score)}{tied}. On the {on} it has {percent(found.held_out_score)} "
        f"{bounds(found.interval)}: {change} ({signed(found.others)}); {better}."
    )
