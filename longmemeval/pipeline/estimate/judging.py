"""Estimate the calls that grade answers: the judge's prompts are made and counted."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import structs

from longmemeval.core.event_loop import complete
from longmemeval.judges.protocol import Judge
from longmemeval.llm.call_counter import Call, CallCounter, longest_reply
from longmemeval.llm.protocol import ChatModel
from longmemeval.pipeline.estimate.work import CallEstimate, estimate_calls, sampled_of, share_of
from longmemeval.records import Answer, Question
from longmemeval.results.run_questions import RunQuestions


def to_label(run_questions: RunQuestions, answers: Mapping[str, Answer], unlabelled: Collection[str]) -> list[Question]:
    """Return the questions whose answers would have to be labelled once all are answered.

    Args:
        answers: the existing answers, by question id.
        unlabelled: the ids of existing answers without a label.
    """
    return [question for name, question in run_questions.questions.items() if name not in answers or name in unlabelled]


def judging_work(
    spec: str,
    load: Callable[[Callable[[str], ChatModel]], Judge],
    run_questions: RunQuestions,
    answers: Mapping[str, Answer],
    left: Sequence[Question],
    lengths: tuple[float, int] = (0, 0),
) -> CallEstimate:
    """Estimate what grading would take; missing answers count as long as possible, at the lower end as expected.

    Args:
        spec: the judge's.
        load: makes the judge from a factory of its chat models.
        answers: the existing answers, by question id.
        left: the questions whose answers are to be labelled.
        lengths: tokens of a missing answer, expected and longest.
    """
    counters: list[CallCounter] = []

    def counter(model: str) -> CallCounter:
        counters.append(CallCounter(model))
        return counters[-1]

    judge = load(counter)
    if not counters:
        return estimate_calls(spec, [], 0, "rules, no model")
    counted = counters[0]
    if not left:
        return estimate_calls(counted.spec, [], 0, "labelled already")
    sampled = sampled_of(left)

    async def grade(missing: str) -> list[Sequence[Call]]:
        calls: list[Sequence[Call]] = []
        for question in sampled:
            answer = answers.get(question.question_id)
            hypothesis = answer.hypothesis if answer else missing
            await judge.judge(question, run_questions.gold(question.question_id), hypothesis)
            calls.append(counted.taken())
        return calls

    def work(missing: float) -> CallEstimate:
        calls = complete(grade(longest_reply(round(missing))))
        return estimate_calls(counted.spec, calls, len(left), f"{share_of(sampled, left)} prompts")

    expected, longest = (
        found[length] for found in [{length: work(length) for length in set(lengths)}] for length in lengths
    )
    return structs.replace(longest, least_prompt_tokens=expected.least_prompt_tokens)
