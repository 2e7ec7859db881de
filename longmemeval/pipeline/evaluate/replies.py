"""Replies that another judge of the run got to the same requests: read again, not paid for again."""

from collections.abc import Set

from msgspec.structs import replace

from longmemeval.judges.definition import prompts_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.recompute import recomputed
from longmemeval.records import Judgement, Usage
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions


def judgements_at_hand(
    files: RunFiles, asked: RunQuestions, identity: JudgeIdentity, wanted: Set[str]
) -> list[Judgement]:
    """What a judge makes of the replies that others got.

    Args:
        files: of the run.
        asked: its questions.
        identity: of the judge.
        wanted: questions it has yet to label. One whose reply it could not read is asked again.

    Returns:
        A judgement for each question that another judge got a reply about: one that sends the same, to the same model
        at the same address, the same time.
    """
    todo = wanted - files.current_judgements(identity.id).keys()
    found = dict[str, Judgement]()
    for other in (metrics.judge for metrics in files.metrics):
        if other.id == identity.id or not _sends_the_same(identity, other):
            continue
        for question_id, judgement in files.current_judgements(other.id).items():
            if question_id in todo and judgement.raw:
                found.setdefault(question_id, _read_again(files, asked, identity, judgement))
    return [found[one] for one in asked.questions if one in found]


def _sends_the_same(one: JudgeIdentity, other: JudgeIdentity) -> bool:
    prompts = [prompts_of(one), prompts_of(other)]
    sent = [prompts and prompts.sends for prompts in prompts]
    served = [(judge.model, judge.endpoint, judge.parameters.get("repeat")) for judge in (one, other)]
    voted = "votes" in one.parameters or "votes" in other.parameters
    return bool(sent[0]) and sent[0] == sent[1] and served[0] == served[1] and not voted


def _read_again(files: RunFiles, asked: RunQuestions, identity: JudgeIdentity, judgement: Judgement) -> Judgement:
    question_id, paid = judgement.question_id, judgement.usage
    usage = Usage(paid.calls, paid.calls, paid.prompt_tokens, paid.completion_tokens)
    free = replace(judgement, judge_id=identity.id, usage=usage, attempts=0, latency_ms=0.0)
    hypothesis = files.answers[question_id].hypothesis
    made = recomputed(identity, free, asked.questions[question_id], asked.gold(question_id), hypothesis)
    unread = judgement.error or "The judge's reply cannot be read"
    return replace(made, error="" if made.label is not None else unread)
