"""The calls that would grade answers: the judge's prompts are made, and counted."""

from collections.abc import Callable, Collection, Mapping, Sequence

from longmemeval.evaluation.judges.protocol import Judge
from longmemeval.event_loop import complete
from longmemeval.llm.call_counter import CallCounter, longest_reply
from longmemeval.llm.protocol import ChatModel
from longmemeval.pipeline.estimate.work import Work, sampled_of, share_of, work_of
from longmemeval.pipeline.runs.asked import AskedQuestions
from longmemeval.records import Answer, Question


def judging_work(
    spec: str,
    load: Callable[[Callable[[str], ChatModel]], Judge],
    asked: AskedQuestions,
    answers: Mapping[str, Answer],
    unlabelled: Collection[str],
    longest: int,
) -> Work:
    """What grading would take of all that has no label; missing answers are taken to be as long as may be.

    Args:
        spec: of the judge.
        load: makes the judge from what makes its chat models.
        asked: the questions.
        answers: those that are there.
        unlabelled: the ids of those of them that have no label.
        longest: tokens of an answer.
    """
    questions: Sequence[Question] = list(asked.questions.values())
    left = [one for one in questions if one.question_id not in answers or one.question_id in unlabelled]
    sampled = {question.question_id for question in sampled_of(left)}
    counters: list[CallCounter] = []

    def counter(model: str) -> CallCounter:
        counters.append(CallCounter(model))
        return counters[-1]

    judge = load(counter)
    if not counters:
        return work_of(spec, [], 0.0, "rules, no model")
    if not left:
        return work_of(counters[0].spec, [], 0.0, "labelled already")

    async def grade() -> None:
        for question in questions:
            if question.question_id in sampled:
                answer = answers.get(question.question_id)
                said = answer.hypothesis if answer else longest_reply(longest)
                await judge.judge(question, asked.gold(question.question_id), said)

    complete(grade())
    basis = f"{share_of(sampled, left)} prompts"
    return work_of(counters[0].spec, counters[0].calls, len(left) / len(sampled), basis)
