"""The authors' reading of a letter: `extract_answer` of inference.py in bowen-upenn/PersonaMem. No model grades.

Letters in parentheses count, else single letters a to d that are separate words. They are searched for in the text
after the last `<final_answer>`, and then in the whole reply. An answer is right if one of the two names exactly the
gold letter: "(c) or (d)" is wrong, and so is "c: a fine day", whose article is a letter.
"""

import re
from functools import cache

from longmemeval.errors import HarnessError
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.records import Gold, Question

_TAG = "<final_answer>"
_IN_PARENTHESES = re.compile(r"\(([a-d])\)")
_WORDS = re.compile(r"\b([a-d])\b")
_GOLD = re.compile(r"\(([a-d])\) ")


def letters_in(text: str) -> set[str]:
    """Return the letters that a text names."""
    lowered = text.lower()
    return set(_IN_PARENTHESES.findall(lowered) or _WORDS.findall(lowered))


def is_right(reply: str, letter: str) -> bool:
    """Return whether a reply names the gold letter and no other."""
    return {letter} in (letters_in(reply.rpartition(_TAG)[2]), letters_in(reply))


def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    """Grade one answer.

    Raises:
        HarnessError: the gold is not one of four options.
    """
    letter = _GOLD.match(str(gold.answer))
    if letter is None:
        raise HarnessError("This judge grades questions with the options (a) to (d)", fix="Choose another --judge")
    named = sorted(letters_in(hypothesis.rpartition(_TAG)[2]) or letters_in(hypothesis))
    return Verdict(is_right(hypothesis, letter[1]), f"names {', '.join(named) or 'no letter'}, right is {letter[1]}")


@cache
def letter_judge() -> RuleJudge:
    """Return the judge that reads letters as the authors do."""
    return rule_judge(
        "offline/personamem",
        grade,
        name="PersonaMem letters",
        version="letters v1: after the last <final_answer>, then anywhere; exactly the gold letter",
        official=True,
    )


LETTERS = JudgeDefinition(rules=letter_judge)
