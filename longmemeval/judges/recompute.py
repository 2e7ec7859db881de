"""Recomputation of judgements from stored replies, without a call, for `verify`."""

from collections.abc import Callable

import msgspec

from longmemeval.judges.definition import Prompts, prompts_of, rules_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import READINGS, read_reply
from longmemeval.judges.votes import majority
from longmemeval.records import Gold, Judgement, Question


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
    if "votes" not in identity.parameters:
        return msgspec.structs.replace(judgement, label=read(judgement.raw), score=None)
    labels = tuple(map(read, judgement.votes))
    return msgspec.structs.replace(judgement, label=majority(labels), score=None, vote_labels=labels)


def _reading(identity: JudgeIdentity, prompts: Prompts | None) -> Callable[[str], bool | None] | None:
    """Return the function that reads the judge's replies; an empty reply, as after a failed call, gives no label."""
    if prompts:
        return lambda reply: prompts.read(reply) if reply.strip() else None
    kind = identity.parameters.get("reply")
    return (lambda reply: read_reply(kind, reply)) if kind in READINGS else None
