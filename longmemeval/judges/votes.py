"""Judges that call another judge more than once: several votes on each answer, or a repeat of the whole grading."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.judges.asking import gives_verdict
from longmemeval.judges.definition import Prompts, prompts_of, rules_of
from longmemeval.judges.protocol import Judge, JudgeIdentity, extended
from longmemeval.judges.template_set import READINGS, read_reply
from longmemeval.llm.thoughts import joined_reasoning
from longmemeval.records import Gold, Judgement, Question, asked_of, slowest, usage_of

MINIMUM_VOTES = 3


class VotingJudge:
    """A judge that calls another one several times at once; the label is that of more than half of the votes.

    No benchmark's own protocol votes, so it is never official.

    Args:
        judge: the judge that votes; it must use a chat model, since rules always give the same.
        votes: number of votes; odd and at least 3.

    Raises:
        HarnessError: another number of votes.
    """

    def __init__(self, judge: Judge, votes: int) -> None:
        if votes < MINIMUM_VOTES or votes % 2 == 0:
            raise HarnessError(
                f"A majority needs an odd number of at least {MINIMUM_VOTES} votes, not {votes}",
                where="votes",
                fix="Change the number, or use 1 for a single vote",
            )
        self._judge = judge
        self._votes = votes
        self.identity = msgspec.structs.replace(extended(judge.identity, {"votes": votes}), official=False)
        """Identity of the judge that votes, with the number of votes among its parameters."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; a vote without a label counts for neither side, no majority gives no label.

        `raw` is the count, `latency_ms` that of the slowest vote, `usage` and `attempts` are sums.

        Raises:
            HarnessError: this judge cannot grade questions of this type.
            FatalModelError: no call can succeed.
        """
        tasks = [asyncio.create_task(self._judge.judge(question, gold, hypothesis)) for _ in range(self._votes)]
        try:
            votes = await asyncio.gather(*tasks)
        except SpendingLimitError:
            # The costs of the other votes are known only when they have ended.
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        finally:
            for task in tasks:
                task.cancel()
        return _counted(votes, self.identity.id)


class AdjustedJudge:
    """Another judge, whose model is called with options of the user, or has room for reasoning; never official.

    Args:
        judge: the judge that grades, with a model that carries the options.
        adjustments: what its parameters say of them.
    """

    def __init__(self, judge: Judge, adjustments: Mapping[str, Any]) -> None:
        self._judge = judge
        self.identity = msgspec.structs.replace(extended(judge.identity, dict(adjustments)), official=False)
        """Identity of the judge that grades, with the adjustments among its parameters."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with the wrapped judge; raises what it raises."""
        judgement = await self._judge.judge(question, gold, hypothesis)
        return msgspec.structs.replace(judgement, judge_id=self.identity.id)


class RepeatedJudge:
    """Another judge under an id of its own, so that its repeated grading goes into another file.

    Never official: of several gradings the first counts.

    Args:
        judge: the judge that grades.
        repeat: number of the grading, from 2.
    """

    def __init__(self, judge: Judge, repeat: int) -> None:
        self._judge = judge
        self.identity = msgspec.structs.replace(extended(judge.identity, {"repeat": repeat}), official=False)
        """Identity of the judge that grades, with the number of the repeat among its parameters."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with the wrapped judge; raises what it raises."""
        judgement = await self._judge.judge(question, gold, hypothesis)
        return msgspec.structs.replace(judgement, judge_id=self.identity.id)


def majority(labels: Sequence[bool | None]) -> bool | None:
    """Return the label of more than half of `labels`; None when neither has that many."""
    return next((label for label in (True, False) if 2 * labels.count(label) > len(labels)), None)


def _counted(votes: Sequence[Judgement], own_id: str) -> Judgement:
    labels = tuple(vote.label for vote in votes)
    label, unlabelled = majority(labels), labels.count(None)
    errors = "; ".join(dict.fromkeys(vote.error for vote in votes if vote.error))
    return msgspec.structs.replace(
        votes[0],
        label=label,
        raw=f"{labels.count(True)} of {len(votes)} right" + (f", {unlabelled} without a label" if unlabelled else ""),
        judge_id=own_id,
        served_model=", ".join(sorted({vote.served_model for vote in votes if vote.served_model})),
        usage=usage_of(votes),
        attempts=sum(vote.attempts for vote in votes),
        latency_ms=slowest(vote.latency_ms for vote in votes),
        error=f"No majority: {errors}" if label is None else "",
        cut=UNSET,
        votes=tuple(vote.raw for vote in votes),
        asked=asked_of(votes),
        vote_labels=labels,
        shown_reasoning=joined_reasoning(vote.reasoning for vote in votes),
    )


# Recomputation of judgements from stored replies, without a call, for `verify`.


def recomputed(
    identity: JudgeIdentity, judgement: Judgement, question: Question, gold: Gold, hypothesis: str
) -> Judgement:
    """Return `judgement` with label, score and vote labels recomputed from the stored replies, or by the rules.

    Args:
        identity: identity of the judge that gave it.
        judgement: the stored judgement.
        question: the question as it was asked.
        gold: gold of the question.
        hypothesis: the answer that was judged.

    Returns:
        `judgement` unchanged if it cannot be recomputed: it was imported, or comes from a version of the rules or a way
        of reading replies that this code does not know.
    """
    if judge := rules_of(identity.model):
        if judge.identity.id != identity.id:
            return judgement
        verdict = judge.grade(question, gold, hypothesis)
        return msgspec.structs.replace(judgement, label=verdict.label, score=verdict.score)
    prompts = prompts_of(identity)
    if prompts and prompts.verdict and judgement.raw and "votes" not in identity.parameters:
        result = prompts.verdict(judgement.raw, gold, hypothesis)
        return msgspec.structs.replace(judgement, label=result.label, score=result.score)
    read = _reading(identity, prompts)
    if read is None:
        return judgement
    if judgement.cut and not gives_verdict(judgement.raw):
        return msgspec.structs.replace(judgement, label=None, score=None)
    if "votes" not in identity.parameters:
        return msgspec.structs.replace(judgement, label=read(judgement.raw), score=None)
    # A vote without a label may have been cut; reading it again never gives it one.
    known = judgement.vote_labels or (False,) * len(judgement.votes)
    labels = tuple(None if old is None else read(vote) for vote, old in zip(judgement.votes, known, strict=True))
    return msgspec.structs.replace(judgement, label=majority(labels), score=None, vote_labels=labels)


def _reading(identity: JudgeIdentity, prompts: Prompts | None) -> Callable[[str], bool | None] | None:
    """Return the function that reads the judge's replies; an empty reply, as after a failed call, gives no label."""
    if prompts:
        return lambda reply: prompts.read(reply) if reply.strip() else None
    kind = identity.parameters.get("reply")
    return (lambda reply: read_reply(kind, reply)) if kind in READINGS else None
