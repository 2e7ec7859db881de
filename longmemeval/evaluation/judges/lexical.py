"""A judge of rules, for runs without a network. It compares words, not meaning: no substitute for the official judge.

Words are normalised as in the evaluation of SQuAD (Rajpurkar et al. 2016: lower case, no punctuation, no articles),
with number words as digits and numbers kept whole as in that of VQA (Antol et al. 2015), and with "n't" read as "not".
The rules, in this order, with the word lists of `lexical_rules.json`:

1. An unanswerable question: correct if the answer abstains as a whole (`refusal.abstains`).
2. Any other question: an answer that abstains is wrong.
3. A preference rubric: correct if the answer has at least `MINIMUM_RUBRIC_RECALL` of the content words in the
   rubric's sentences about what the user would like.
4. Otherwise: correct if the gold answer, or one of the alternatives its text offers, is in the answer word for
   word, or all its numbers do and enough words are shared: token F1 (Rajpurkar et al. 2016) of at least `MINIMUM_F1`
   (without the numbers, "12 days" would pass for "14 days").

A negated or a chance mention of the right words counts as correct; a right answer in other words counts as wrong.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.evaluation import refusal
from longmemeval.evaluation.judges.definition import JudgeDefinition
from longmemeval.evaluation.judges.protocol import JudgeIdentity, judge_id
from longmemeval.evaluation.judges.rules import RuleJudge, Verdict
from longmemeval.files import sha256_file, sha256_text
from longmemeval.records import Gold

LEXICAL_JUDGE = "offline/lexical"
MINIMUM_F1 = 0.5
MINIMUM_RUBRIC_RECALL = 0.3

_RULES_FILE = Path(__file__).with_name("lexical_rules.json")
_ARTICLES = frozenset({"a", "an", "the"})


class _Rules(Struct, frozen=True, forbid_unknown_fields=True):
    number_words: tuple[str, ...]
    """The word for each number from 0."""
    rubric_words: frozenset[str]
    """What every rubric says, and words without content: they prove nothing."""


@cache
def lexical_judge() -> RuleJudge:
    """Grades by the rules above, without a model; never official."""
    rules_sha256 = sha256_text(sha256_file(_RULES_FILE) + refusal.rules_sha256())
    parameters = {"minimum_f1": MINIMUM_F1, "minimum_rubric_recall": MINIMUM_RUBRIC_RECALL}
    identity = JudgeIdentity(
        id=judge_id("offline-lexical", rules_sha256, LEXICAL_JUDGE, parameters),
        model=LEXICAL_JUDGE,
        templates="lexical rules v2",
        templates_sha256=rules_sha256,
        parameters=parameters,
        official=False,
    )
    return RuleJudge(identity, lambda _, gold, hypothesis: grade(gold, hypothesis))


LEXICAL = JudgeDefinition(rules=lexical_judge)


def grade(gold: Gold, hypothesis: str) -> Verdict:
    """Apply the rules to one answer."""
    words = normalise(hypothesis)
    abstains = refusal.abstains(hypothesis)
    if gold.abstention or abstains:
        return Verdict(gold.abstention and abstains, "abstains" if abstains else "does not abstain")
    if gold.question_type == "single-session-preference":
        recall = _rubric_recall(str(gold.answer), words)
        return Verdict(recall >= MINIMUM_RUBRIC_RECALL, f"rubric recall {recall:.2f}")
    answers = [normalise(text) for text in _alternatives(str(gold.answer))]
    if any(_contains(words, answer) for answer in answers):
        return Verdict(True, "contains the answer")
    f1 = max((token_f1(words, answer) for answer in answers if _numbers(answer).issubset(words)), default=0.0)
    return Verdict(f1 >= MINIMUM_F1, f"token F1 {f1:.2f}")


def normalise(text: str) -> list[str]:
    """The words of `text`, comparable. Articles go unless there is nothing else (a grade "A")."""
    text = text.lower().replace("\u2019", "'").replace("cannot", "can not").replace("can't", "can not")
    text = text.replace("won't", "will not").replace("n't", " not").replace("'", "")
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    digits = _digits()
    words = [digits.get(word, word) for word in re.findall(r"\d+(?:[.:]\d+)+|\w+", text)]
    return [word for word in words if word not in _ARTICLES] or words


def token_f1(words: Sequence[str], answer: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the shared words, counted with repeats; 0 without any."""
    shared = (Counter(words) & Counter(answer)).total()
    return 2 * shared / (len(words) + len(answer)) if shared else 0.0


def _numbers(words: Sequence[str]) -> set[str]:
    return {word for word in words if word[0].isdigit()}


def _contains(words: Sequence[str], sought: Sequence[str]) -> bool:
    return bool(sought) and f" {' '.join(sought)} " in f" {' '.join(words)} "


def _alternatives(answer: str) -> list[str]:
    """The gold text, itself without remarks in parentheses, and what golds of the field allow beside it.

    Two forms occur: "25:50 (or 25 minutes and 50 seconds)" and "7 days. 8 days (…) is also acceptable."
    """
    plain = re.sub(r"\([^)]*\)", "", answer)
    found = [answer, plain, *re.findall(r"\(or ([^)]*)\)", answer)]
    if "also acceptable" in plain:
        found += re.split(r"\.\s|\s+(?:is|are)\s+also acceptable", plain)
    return found


def _rubric_recall(rubric: str, words: Sequence[str]) -> float:
    sentences = [normalise(sentence) for sentence in re.split(r"(?<=[.!?])\s", rubric)]
    liked = [sentence for sentence in sentences if not _contains(sentence, ["not", "prefer"])] or sentences
    content = {word for sentence in liked for word in sentence} - _rules().rubric_words
    return len(content.intersection(words)) / len(content) if content else 0.0


@cache
def _rules() -> _Rules:
    return msgspec.json.decode(_RULES_FILE.read_bytes(), type=_Rules)


@cache
def _digits() -> dict[str, str]:
    return {word: str(number) for number, word in enumerate(_rules().number_words)}
