"""Estimate the calls that grade answers: the judge's prompts are made and counted."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from longmemeval.core.event_loop import complete
from longmemeval.judges.protocol import Judge
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.tokens import Call, CallCounter, longest_reply
from longmemeval.pipeline.estimate.stages import (
    Calls,
    Pace,
    Stage,
    estimate_calls,
    expected_labels,
    sampled_of,
    share_of,
    stage,
)
from longmemeval.records import Answer, Gold, Question
from longmemeval.results.run_questions import RunQuestions

LoadJudge = Callable[[Callable[[str], ChatModel]], Judge]
"""Makes a judge from a factory of its chat models."""


@dataclass(frozen=True)
class AnswersToJudge:
    """The answers of a run as far as they exist, and the pace of judges' calls."""

    run_questions: RunQuestions
    answers: Mapping[str, Answer]
    """The existing answers, by question id."""
    results_dir: Path
    pace: Pace
    lengths: tuple[float, int] = (0, 0)
    """Tokens of a missing answer, expected and longest."""

    def to_label(self, unlabelled: Collection[str]) -> list[Question]:
        """Return the questions whose answers have to be labelled once all are answered.

        Args:
            unlabelled: the ids of existing answers without a label.
        """
        questions = self.run_questions.questions.items()
        return [question for name, question in questions if name not in self.answers or name in unlabelled]

    def stage(self, judge_id: str, spec: str, load: LoadJudge | None, left: Sequence[Question]) -> Stage:
        """Estimate a judge's calls about the questions that are left.

        Args:
            judge_id: id of the judge, whose earlier replies are the expected ones.
            spec: names a judge that uses rules, or is not asked.
            load: makes the judge; None: only its id is known, so it cannot be asked.
        """
        if load:
            work = self._work(spec, load, left)
        else:
            work = estimate_calls(spec, [], 0, "existing labels only; a judge named by its id is not called")
        return judge_stage(judge_id, work, self.results_dir, self.pace)

    def _work(self, spec: str, load: LoadJudge, left: Sequence[Question]) -> Calls:
        """Estimate the calls; missing answers have the maximum length, at the lower end the expected one."""
        sampled = sampled_of(left)

        def work(missing: float) -> Calls:
            longest = longest_reply(round(missing))
            answers = [self.answers.get(question.question_id) for question in sampled]
            cases = [
                (question, self.run_questions.gold(question.question_id), answer.hypothesis if answer else longest)
                for question, answer in zip(sampled, answers, strict=True)
            ]
            return judge_calls(spec, load, cases, len(left), f"{share_of(sampled, left)} prompts")

        found = {length: work(length) for length in set(self.lengths)}
        expected, longest = (found[length] for length in self.lengths)
        return structs.replace(longest, least_prompt_tokens=expected.least_prompt_tokens)


def judge_stage(judge_id: str, work: Calls, results_dir: Path, pace: Pace) -> Stage:
    """Return the stage of a judge's calls; its labels are expected to be like those of its latest run."""
    return stage(f"judge {work.model}", work, expected_labels(results_dir, judge_id, work), pace)


def judge_calls(
    spec: str, load: LoadJudge, cases: Sequence[tuple[Question, Gold, str]], total: int, basis: str
) -> Calls:
    """Estimate the calls about `total` answers by those about `cases`: questions with their gold and an answer."""
    counters: list[CallCounter] = []

    def counter(model: str) -> CallCounter:
        counters.append(CallCounter(model))
        return counters[-1]

    judge = load(counter)
    if not counters:
        return estimate_calls(spec, [], 0, "rules, no model")
    counted = counters[0]
    if not cases:
        return estimate_calls(counted.spec, [], 0, "labelled already")

    async def grade() -> list[Sequence[Call]]:
        calls: list[Sequence[Call]] = []
        for question, gold, hypothesis in cases:
            await judge.judge(question, gold, hypothesis)
            calls.append(counted.taken())
        return calls

    return estimate_calls(counted.spec, complete(grade()), total, basis)
