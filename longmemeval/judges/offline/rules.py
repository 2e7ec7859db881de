"""Judges of rules alone: no model is called, and the same answer always gets the same label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from longmemeval.core.files import sha256_text
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.records import Gold, Judgement, Question


class Verdict(NamedTuple):
    """The verdict of rules on one answer."""

    label: bool | None
    """True if the answer is right; None if the rules give no label for the question."""
    reason: str
    """The rule that gave the label, or why there is none."""
    score: float | None = None
    """Credit between 0 and 1; None if the rules give labels only."""


Grade = Callable[[Question, Gold, str], Verdict]
"""Maps a question, its gold and the answer to the verdict; raises `HarnessError` for a type that the rules lack."""


@dataclass(frozen=True)
class RuleJudge:
    """A judge that grades by a pure function."""

    identity: JudgeIdentity
    """Identity of the judge."""
    grade: Grade

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; the reason is `raw`, or `error` without a label; the prompt's hash is empty.

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
    """Return a judge of rules.

    Args:
        spec: name registered under `longmemeval.judges`, by which `--judge` selects it.
        grade: the rules.
        name: name of the rules in tables.
        version: text that identifies the rules; it is hashed into the judge's id, so change it whenever a verdict may
            change.
        metric: name of the mean: `accuracy` for labels, something else if verdicts have scores.
        official: True if a benchmark's authors grade by these rules.
        parameters: parameters of the rules, if any.
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
