"""A judge that is rules alone: no model is asked, and the same answer always gets the same label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.files import sha256_text
from longmemeval.records import Gold, Judgement, Question


class Verdict(NamedTuple):
    """What rules say about one answer."""

    label: bool | None
    """Whether the answer is right; None where the rules have none for the question."""
    reason: str
    """The rule that gave the label, or why there is none."""
    score: float | None = None
    """Credit between 0 and 1; None where rules give labels alone."""


@dataclass(frozen=True)
class RuleJudge:
    """Grades by a pure function."""

    identity: JudgeIdentity
    """Who grades."""
    grade: Callable[[Question, Gold, str], Verdict]
    """The verdict on an answer; raises `HarnessError` for a question of a type that the rules do not know."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; the reason is `raw`, or `error` without a label. No prompt is made, so its hash is empty.

        Raises:
            HarnessError: these rules cannot grade questions of this type.
        """
        verdict = self.grade(question, gold, hypothesis)
        return Judgement(
            question_id=question.question_id,
            label=verdict.label,
            raw="" if verdict.label is None else verdict.reason,
            judge_id=self.identity.id,
            prompt_sha256="",
            answer_sha256=sha256_text(hypothesis),
            error=verdict.reason if verdict.label is None else "",
            score=verdict.score,
        )
