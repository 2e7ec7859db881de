"""FactConsolidation's own metrics: `utils/eval_other_utils.py` of MemoryAgentBench at 455306d. No model grades.

Gold and answer are compared in lower case, without ASCII punctuation and articles. The answer counts both as it is and
as parsed (the text after its first "Answer:", or its first line), whichever scores higher.

The official metric is a substring match that ignores word borders: an answer that names the old and the new value is
right, and so is one that repeats the whole list. `offline/factconsolidation-current` also requires that the answer
names no overruled one.
"""

import re
import string
from collections import Counter
from collections.abc import Callable
from functools import cache

from longmemeval.benchmarks.factconsolidation.loader import FactGold
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.records import Gold, Question

_SOURCE = "utils/eval_other_utils.py at 455306d"
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Score = Callable[[str, str], float]
"""Function from a normalised answer and a normalised gold to a score."""


def normalise(text: str) -> str:
    """Return the text in lower case without ASCII punctuation and articles, with single spaces between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def parsed(answer: str) -> str:
    """Return the text after the first "Answer:" on its line, or the first line."""
    _, marked, after = answer.partition("Answer:")
    return next(iter((after if marked else answer).strip().splitlines()), "").strip()


def substring(answer: str, gold: str) -> float:
    """Return 1 if the gold is anywhere in the answer, else 0."""
    return float(gold in answer)


def exact(answer: str, gold: str) -> float:
    """Return 1 if the answer is the gold, else 0."""
    return float(answer == gold)


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall of the shared words, counted with repeats; 0 without any."""
    answered, sought = answer.split(), gold.split()
    shared = (Counter(answered) & Counter(sought)).total()
    return 2 * shared / (len(answered) + len(sought)) if shared else 0.0


def official_score(score: Score, hypothesis: str, gold: str) -> float:
    """Return the better score of the answer as it is and as parsed."""
    return max(score(normalise(text), normalise(gold)) for text in (hypothesis, parsed(hypothesis)))


def _labels(score: Score) -> Callable[[Question, Gold, str], Verdict]:
    def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
        label = official_score(score, hypothesis, str(gold.answer)) == 1
        return Verdict(label, f"{score.__name__}: {'yes' if label else 'no'}")

    return grade


def _grade_f1(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    score = official_score(f1, hypothesis, str(gold.answer))
    return Verdict(score == 1, f"F1 {score:.3f}", score)


def _grade_current(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    if not isinstance(gold, FactGold):
        raise HarnessError("This judge grades FactConsolidation only", fix="Choose another --judge")
    if not official_score(substring, hypothesis, str(gold.answer)):
        return Verdict(False, "does not name the official answer")
    # A right answer may contain a stale one: "New York City" has "New York".
    rest = normalise(hypothesis).replace(normalise(str(gold.answer)), " ")
    stale = [answer for answer in gold.stale_answers if re.search(rf"\b{re.escape(normalise(answer))}\b", rest)]
    return Verdict(not stale, f"also names '{stale[0]}', which was overruled" if stale else "names the answer alone")


@cache
def substring_judge() -> RuleJudge:
    """Return the official judge."""
    return rule_judge(
        "offline/factconsolidation",
        _labels(substring),
        name="FactConsolidation substring",
        version=f"substring v1: {_SOURCE}",
        official=True,
    )


@cache
def exact_judge() -> RuleJudge:
    """Return the judge of the authors' exact match, a metric next to their main one."""
    return rule_judge(
        "offline/factconsolidation-exact",
        _labels(exact),
        name="FactConsolidation exact match",
        version=f"exact v1: {_SOURCE}",
    )


@cache
def f1_judge() -> RuleJudge:
    """Return the judge of the authors' F1, a metric next to their main one."""
    return rule_judge(
        "offline/factconsolidation-f1",
        _grade_f1,
        name="FactConsolidation F1",
        version=f"F1 v1: {_SOURCE}",
        metric="F1",
    )


@cache
def current_only_judge() -> RuleJudge:
    """Return our own judge, which requires the official answer and no overruled one."""
    return rule_judge(
        "offline/factconsolidation-current",
        _grade_current,
        name="FactConsolidation current only",
        version="current only v1: substring, and no overruled answer as whole words beside it",
    )


SUBSTRING = JudgeDefinition(rules=substring_judge)
EXACT = JudgeDefinition(rules=exact_judge)
F1 = JudgeDefinition(rules=f1_judge)
CURRENT_ONLY = JudgeDefinition(rules=current_only_judge)
