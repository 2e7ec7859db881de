"""A rule-based judge for runs without a network. It compares words, not meaning: no substitute for the official judge.

In an answer above 80 words only the first 20 and the last 40 count (`answer_text.counted`): an answer states its
result at one of its ends, and a text that repeats the history has the gold anywhere. Of these, what the answer denies,
leaves open, says of the past or of a difference does not count (`claims.py`). Numbers, dates and times are compared in
one notation (`core/text/quantities.py`), other words by their stems. The rules, in this order:

1. An unanswerable question: correct if the answer abstains as a whole (`refusal.abstains`), or ends in a refusal.
2. Any other question: an answer that abstains is wrong, and so is one that refuses and then guesses.
3. A preference rubric: correct if the answer has at least `MINIMUM_RUBRIC_RECALL` of the content words in the
   rubric's sentences about what the user would like. A text in which the user speaks is no advice.
4. A gold that begins with yes or no: correct if the answer says the same of the two.
5. A gold that is one of two options of the question ("…, A or B?"): correct if the conclusion names it first.
6. Otherwise correct if the words that count contain the gold, or one of the alternatives its text offers, word for
   word; or all its numbers, all items of a list, and at least `MINIMUM_RECALL` of its content words that are not in
   the question. If the conclusion has numbers, those of the gold must be among them. As in the official prompt, a
   number of days, weeks or months may be off by one in `temporal-reasoning`.

A right answer in other words, or in another language than English, counts as wrong; an incidental mention of the right
words may count as correct.
"""

import re
from collections.abc import Sequence
from functools import cache

from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.text.words import content_words
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline import refusal
from longmemeval.judges.offline.answer_text import advice, counted, stated
from longmemeval.judges.offline.claims import claimed
from longmemeval.judges.offline.comparison import (
    MINIMUM_RECALL,
    RULES_FILE,
    Comparison,
    contains,
    lexical_rules,
    normalise,
    stems_of,
)
from longmemeval.judges.offline.gold_forms import forms_of, options_of, polarity_of, with_date_of
from longmemeval.judges.offline.rules import RuleJudge, Verdict
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.records import Gold, Question

LEXICAL_JUDGE = "offline/lexical"
MINIMUM_RUBRIC_RECALL = 0.25

_HOW_LONG = re.compile(r"\bhow (?:many (?:days?|weeks?|months?|years?|hours?)|long|old)\b")


@cache
def lexical_judge() -> RuleJudge:
    """Return the judge that applies the rules above, without a model; never official."""
    rules_sha256 = sha256_text(sha256_file(RULES_FILE) + refusal.rules_sha256())
    parameters = {"minimum_recall": MINIMUM_RECALL, "minimum_rubric_recall": MINIMUM_RUBRIC_RECALL}
    identity = JudgeIdentity(
        id=judge_id("offline-lexical", rules_sha256, LEXICAL_JUDGE, parameters),
        model=LEXICAL_JUDGE,
        templates=f"lexical rules v{lexical_rules().version}",
        templates_sha256=rules_sha256,
        parameters=parameters,
        official=False,
    )
    return RuleJudge(identity, grade)


LEXICAL = JudgeDefinition(rules=lexical_judge, compares_words=True)


def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    """Apply the rules to one answer."""
    abstains = refusal.abstains(hypothesis)
    if gold.abstention:
        declines = abstains or refusal.ends_in_refusal(hypothesis)
        return Verdict(declines, "abstains" if declines else "does not abstain")
    if abstains:
        return Verdict(False, "abstains")
    if refusal.guesses(hypothesis):
        return Verdict(False, "a guess after a refusal")
    text = str(gold.answer)
    if gold.question_type == "single-session-preference":
        recall = _rubric_recall(question.text, text, hypothesis)
        return Verdict(recall >= MINIMUM_RUBRIC_RECALL, f"rubric recall {recall:.2f}")
    asserted = stated(hypothesis)
    if (right := polarity_of(text)) and (stated_polarity := _polarity_stated(hypothesis, asserted)):
        return Verdict(right == stated_polarity, f"says {stated_polarity}")
    if options := options_of(question.text, text):
        first = _named_first(asserted, *options)
        if first is not None:
            return Verdict(first, "names the right option first" if first else "names the other option first")
    near = int(gold.question_type == "temporal-reasoning" and bool(_HOW_LONG.search(question.text.lower())))
    forms = tuple(forms_of(question.text, text))
    whole, conclusion = counted(hypothesis), " ".join(asserted)
    words = normalise(claimed(with_date_of(text, whole), question.text, forms, near))
    concluded = words
    if conclusion != whole.lower():
        concluded = normalise(claimed(with_date_of(text, conclusion), question.text, forms, near))
    compare = Comparison(question.text, words, concluded, near)
    verdicts = [compare.verdict(form) for form in forms]
    return next((verdict for verdict in verdicts if verdict.label), verdicts[0])


def _polarity_stated(answer: str, asserted: Sequence[str]) -> str:
    return next((found for text in (*asserted[:1], answer, *asserted[-1:]) if (found := polarity_of(text))), "")


def _named_first(asserted: Sequence[str], right: set[str], other: set[str]) -> bool | None:
    """Return whether the first sentence about either option names the right one first; None without such a sentence."""
    for sentence in asserted:
        stems = content_words(sentence)
        right_place = next((place for place, stem in enumerate(stems) if stem in right), None)
        other_place = next((place for place, stem in enumerate(stems) if stem in other), None)
        if right_place is not None or other_place is not None:
            return right_place is not None and (other_place is None or right_place < other_place)
    return None


def _rubric_recall(question: str, rubric: str, answer: str) -> float:
    sentences = [normalise(sentence) for sentence in re.split(r"(?<=[.!?])\s", rubric)]
    liked = [sentence for sentence in sentences if not contains(sentence, ["not", "prefer"])] or sentences
    content = {
        stem for sentence in liked for stem in stems_of([w for w in sentence if w not in lexical_rules().rubric_words])
    }
    content -= set(stems_of(normalise(question)))
    return len(content.intersection(stems_of(normalise(advice(answer))))) / len(content) if content else 0.0
