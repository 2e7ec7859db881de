"""A judge of rules: an answer is right if it has every word of the gold answer, or abstains where nothing is known."""

import re

from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.refusal import abstains
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.records import Gold, Question


def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    """Apply the rules to one answer."""
    if gold.abstention:
        return Verdict(abstains(hypothesis), "abstains" if abstains(hypothesis) else "does not abstain")
    missing = _words(str(gold.answer)) - _words(hypothesis)
    return Verdict(not missing, f"lacks {', '.join(sorted(missing))}" if missing else "has every word")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def pantry_rules() -> RuleJudge:
    """Return the judge. Whoever changes the rules changes `version`, and has another judge."""
    return rule_judge(
        "offline/pantry", grade, name="pantry rules", version="pantry rules v1: every word of the gold answer"
    )


PANTRY_RULES = JudgeDefinition(rules=pantry_rules)
