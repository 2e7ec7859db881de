"""Reuse replies that another judge of the run got to the same requests, instead of paying for them again."""

from collections.abc import Set

from msgspec.structs import replace

from longmemeval.judges.definition import prompts_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.votes import recomputed
from longmemeval.records import Judgement
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions


def judgements_at_hand(
    files: RunFiles, run_questions: RunQuestions, identity: JudgeIdentity, wanted: Set[str]
) -> list[Judgement]:
    """Return a judge's judgements from the replies that other judges got.

    Args:
        wanted: questions that the judge has yet to label. One whose reply it could not read is asked again.

    Returns:
        A judgement for each question that another judge got a reply about, if both send the same requests to the same
        model at the same address, in the same repeat.
    """
    todo = wanted - files.current_judgements(identity.id).keys()
    found = dict[str, Judgement]()
    for other in (metrics.judge for metrics in files.metrics):
        if other.id == identity.id or not _sends_the_same(identity, other):
            continue
        for question_id, judgement in files.current_judgements(other.id).items():
            if question_id in todo and judgement.raw:
                found.setdefault(question_id, _read_again(files, run_questions, identity, judgement))
    return [found[question_id] for question_id in run_questions.questions if question_id in found]


def _sends_the_same(judge: JudgeIdentity, other: JudgeIdentity) -> bool:
    prompts = [prompts_of(judge), prompts_of(other)]
    sent = [prompts and prompts.sends for prompts in prompts]
    served = [(identity.model, identity.endpoint, identity.parameters.get("repeat")) for identity in (judge, other)]
    voted = "votes" in judge.parameters or "votes" in other.parameters
    return bool(sent[0]) and sent[0] == sent[1] and served[0] == served[1] and not voted


def _read_again(
    files: RunFiles, run_questions: RunQuestions, identity: JudgeIdentity, judgement: Judgement
) -> Judgement:
    question_id, usage = judgement.question_id, judgement.usage.from_cache(judgement.usage.calls)
    free = replace(judgement, judge_id=identity.id, usage=usage, attempts=0, latency_ms=0.0)
    hypothesis = files.answers[question_id].hypothesis
    reread = recomputed(
        identity, free, run_questions.questions[question_id], run_questions.gold(question_id), hypothesis
    )
    unread = judgement.error or "The judge's reply cannot be read"
    return replace(reread, error="" if reread.label is not None else unread)
