"""A judge that is rules alone: no model is asked, and the same answer always gets the same label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from longmemeval.core.files import sha256_text
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.records import Gold, Judgement, Question


class Verdict(NamedTuple):
    """What rules say about one answer."""

    label: bool | None
    """Whether the answer is right; None where the rules have none for the question."""
    reason: str
    """The rule that gave the label, or why there is none."""
    score: float | None = None
    """Credit between 0 and 1; None where rules give labels alone."""


Grade = Callable[[Question, Gold, str], Verdict]
"""From a question, its gold and the answer to the verdict; raises `HarnessError` for a type that the rules lack."""


@dataclass(frozen=True)
class RuleJudge:
    """Grades by a pure function."""

    identity: JudgeIdentity
    """Who grades."""
    grade: Grade

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


def rule_judge(
    spec: str,
    grade: Grade,
    *,
    name: str,
    version: str,
    metric: str = "accuracy",
    official: bool = False,
    parameters: dict[str, Any] | None = None,
) -> RuleJudge:
    """A judge of rules.

    Args:
        spec: the name in the door `longmemeval.judges`, by which `--judge` asks for it.
        grade: the rules.
        name: what tables call them.
        version: says what the rules are; it is hashed into the judge's id, so change it whenever a verdict may change.
        metric: what the mean is called: `accuracy` for labels, something else where verdicts have scores.
        official: whether a benchmark's authors grade by these rules.
        parameters: of the rules, if any.
    """
    version_sha256, parameters = sha256_text(version), parameters or {}
    identity = JudgeIdentity(
        id=judge_id(spec.replace("/", "-"), version_sha256, spec, parameters),
        model=spec,
        templates=name,
        templates_sha256=version_sha256,
        parameters=parameters,
        official=official,
        metric=metric,
    )
    return RuleJudge(identity, grade)
