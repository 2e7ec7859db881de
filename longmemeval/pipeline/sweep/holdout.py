"""Choose the best configuration on one part of the haystacks, and see what it is worth on the others.

The best of many looks better than it is on the questions that it was chosen by. Cawley and Talbot (2010,
https://jmlr.org/papers/v11/cawley10a.html) call what it loses elsewhere selection bias.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from longmemeval.core.text.figures import bounds, count_of, percent, points, signed
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.flips import pool_repeats
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.statistics.intervals import score_interval


class Holdout(Struct, frozen=True):
    """The best run on the haystacks to choose by, and its score on those that were held out; fractions."""

    winner: str
    """The id of the run, of its first repeat."""
    tied: tuple[str, ...]
    """Runs that do exactly as well where it was chosen; the first in the file's order is taken."""
    chosen_by: int
    """Questions to choose by."""
    held_out: int
    haystacks: tuple[int, int]
    """Haystacks to choose by, and held out."""
    score: float
    """Of the winner where it was chosen."""
    held_out_score: float
    interval: tuple[float, float]
    """95 % interval of `held_out_score`."""
    others: float
    """What the mean of all configurations changes by from the one part to the other: how much harder that is."""
    best: str
    """The run that would have been best on what was held out."""
    best_score: float

    @property
    def lost(self) -> float:
        """What the winner loses beyond what all configurations lose; negative: it gains."""
        return self.score - self.held_out_score + self.others


def split(units: Mapping[str, str], share: float, seed: int) -> frozenset[str]:
    """Return the ids of the questions that are held out, by whole haystacks.

    Args:
        units: question id to haystack, or to another group that is resampled whole.
        share: of the haystacks to hold out, between 0 and 1.
        seed: of the choice.

    Raises:
        HarnessError: there is one haystack only.
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
    """Return what the run that is best elsewhere does on the questions held out; None: there is nothing to choose from.

    Controls and runs that read the gold evidence are not chosen; repeats of one configuration count as one, by their
    mean.

    Args:
        graded: runs over the same questions, graded by one judge.
        held: ids of the questions that are held out.
    """
    runs = [run for run in graded if run.summary.control is None and not run.summary.reads_gold]
    found = {pool[0].id: _mean_credits(pool) for pool in pool_repeats(runs)}
    return chosen(found, runs[0].haystacks, held) if len(found) > 1 else None


def chosen(found: Mapping[str, Mapping[str, float]], units: Mapping[str, str], held: Collection[str]) -> Holdout:
    """Return the best of several runs by the questions that are not held out.

    Args:
        found: run id to the credit of every question, between 0 and 1.
        units: question id to haystack.
        held: ids of the questions that are held out.
    """
    rest = sorted(units.keys() - set(held))
    here = {name: fmean(credits[one] for one in rest) for name, credits in found.items()}
    there = {name: fmean(credits[one] for one in sorted(held)) for name, credits in found.items()}
    winner, best = (max(scores, key=scores.__getitem__) for scores in (here, there))
    return Holdout(
        winner=winner,
        tied=tuple(name for name, score in here.items() if score == here[winner] and name != winner),
        chosen_by=len(rest),
        held_out=len(held),
        haystacks=(len({units[one] for one in rest}), len({units[one] for one in held})),
        score=here[winner],
        held_out_score=there[winner],
        interval=score_interval([found[winner][one] for one in sorted(held)], [units[one] for one in sorted(held)]),
        others=fmean(there.values()) - fmean(here.values()),
        best=best,
        best_score=there[best],
    )


def _mean_credits(pool: Sequence[Evaluation]) -> dict[str, float]:
    """Return the mean credit of each question over repeats; what is not evaluated counts as 0."""
    credits = [run.credits for run in pool]
    return {question_id: fmean(one[question_id] or 0.0 for one in credits) for question_id in credits[0]}


def holdout_line(found: Holdout) -> str:
    """Return what was chosen and what it is worth, in two or three sentences."""
    tied = f", as high as {', '.join(found.tied)}" if found.tied else ""
    here, there = (count_of(n, "question") for n in (found.chosen_by, found.held_out))
    on = f"{there} held out ({count_of(found.haystacks[1], 'haystack')})"
    change = f"{points(abs(found.lost))} {'lost' if found.lost >= 0 else 'gained'} beside what all of them change by"
    better = (
        "no other does better there"
        if found.best_score == found.held_out_score
        else f"{found.best} would have {percent(found.best_score)} there"
    )
    return (
        f"Chosen on {here} ({count_of(found.haystacks[0], 'haystack')}): {found.winner}, {percent(found.score)}{tied}. "
        f"On the {on} it has {percent(found.held_out_score)} {bounds(found.interval)}: {change} "
        f"({signed(found.others)}); {better}."
    )
