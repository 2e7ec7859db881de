"""LoCoMo's own score and the two of the Mem0 paper, which no model grades.

The own score: the rules of `task_eval/evaluation.py` in the official repository (at 3eb6f2c). Texts are compared as
bags of stems: F1 (van Rijsbergen) after a normalisation close to SQuAD's, which here also drops "and". The rule depends
on the category:

| category | score |
|---|---|
| multi-hop | the mean, over the comma-separated parts of the gold, of the best F1 of a part of the answer |
| temporal, single-hop | F1 of answer and gold |
| open-domain | F1 of answer and gold up to its first semicolon |
| adversarial | 1 if the answer says that it is not mentioned, else 0; the gold is not read |

Adversarial scores are comparable with published ones only if the question offered its two options (`Question.options`),
as the official prompt does; without them they measure open abstention. An answer that picks an option by its letter is
read as in `task_eval/gpt_utils.py`. The official code cannot score the 444 adversarial questions without an `answer`;
their rule needs none, so here they are scored.

The two scores without a model in the Mem0 paper (arXiv 2504.19413, `evaluation/metrics/utils.py` in its repository).

They are not LoCoMo's own: words are not stemmed, articles stay, lists are not split, and a gold keeps the text after
its semicolon. The paper excludes adversarial questions; here they get no label, so that they show as not evaluated.

The paper mislabels LoCoMo's categories. To compare scores with its Table 1, read

| LoCoMo category | in the paper |
|---|---|
| 1, multi-hop | "single-hop" |
| 2, temporal | "temporal" |
| 3, open-domain | "multi-hop" |
| 4, single-hop | "open domain" |

One deviation, in BLEU-1: texts are not split into sentences before they are split into words, since that would need a
model that NLTK downloads. It affects only full stops inside a text of several sentences.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

from longmemeval.benchmarks.locomo.format import ABSTENTION_PHRASES, CATEGORIES
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.records import Gold, Question, RightAnswer

if TYPE_CHECKING:
    from nltk.stem import PorterStemmer


LOCOMO_F1 = "offline/locomo-f1"

_VERSION = "LoCoMo F1 v1: task_eval/evaluation.py at 3eb6f2c, Porter stemmer with NLTK's extensions, 3 decimals"
_DECIMALS = 3
_ADVERSARIAL = "adversarial"
_LEFT_OUT_WORDS = re.compile(r"\b(?:a|an|the|and)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@cache
def locomo_f1_judge() -> RuleJudge:
    """Return the judge that applies the rules above; official for LoCoMo."""
    return rule_judge(LOCOMO_F1, grade, name="LoCoMo F1", version=_VERSION, metric="F1", official=True)


F1 = JudgeDefinition(rules=locomo_f1_judge)


def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    """Return the official score of one answer, rounded to 3 decimals; the label is True for full credit.

    Raises:
        HarnessError: the question's type is not a category of LoCoMo.
    """
    category = category_of(gold)
    prediction = hypothesis
    if category == _ADVERSARIAL and question.options:
        prediction = choice(hypothesis, question.options)
    score = round(official_score(category, gold.answer, prediction), _DECIMALS)
    reason = f"F1 {score:.{_DECIMALS}f}"
    if category == _ADVERSARIAL:
        reason = f"{'an' if score else 'no'} abstention phrase"
    if prediction != hypothesis:
        reason += f", having chosen '{prediction}'"
    return Verdict(score == 1, reason, score)


def category_of(gold: Gold) -> str:
    """Return the LoCoMo category of a question; adversarial if it is to abstain from, whatever type its score has.

    Raises:
        HarnessError: the question's type is not a category of LoCoMo.
    """
    if gold.abstention or gold.trap is not None:
        return _ADVERSARIAL
    if gold.question_type not in CATEGORIES.values():
        raise _no_category(gold.question_type, f"question {gold.question_id}")
    return gold.question_type


def official_score(category_name: str, gold: RightAnswer, prediction: str) -> float:
    """Return the score of one answer by the rule of its category, between 0 and 1, not rounded.

    Args:
        category_name: one of the names in `CATEGORIES`.
        gold: the right answer; six of the official answers are numbers.
        prediction: the answer, with a chosen option already replaced by its words (`choice`).

    Raises:
        HarnessError: LoCoMo has no such category.
    """
    if category_name not in CATEGORIES.values():
        raise _no_category(category_name)
    answer = str(gold)
    if category_name == _ADVERSARIAL:
        return float(abstention_phrase(prediction))
    if category_name == "multi-hop":
        return f1_multi(prediction, answer)
    return f1(prediction, answer.partition(";")[0] if category_name == "open-domain" else answer)


def normalise(text: str) -> str:
    """Return `text` in lower case without ASCII punctuation, articles and "and", with single spaces between words.

    Hyphens and apostrophes vanish without a gap: "more-or-less" becomes "moreorless".
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_LEFT_OUT_WORDS.sub(" ", bare).split())


def tokens(text: str) -> list[str]:
    """Return the stems of the normalised words (Porter 1980, in NLTK's default mode)."""
    return [_stem(word) for word in normalise(text).split()]


def f1(prediction: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall of the shared stems, counted with repeats; 0 without any."""
    predicted, sought = tokens(prediction), tokens(gold)
    shared = (Counter(predicted) & Counter(sought)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(sought)
    return 2 * precision * recall / (precision + recall)


def f1_multi(prediction: str, gold: str) -> float:
    """Return the mean, over the comma-separated parts of `gold`, of the best `f1` with a part of `prediction`.

    Surplus parts cost nothing, and "and" is not a separator.
    """
    parts = prediction.split(",")
    return fmean(max(f1(part, sought) for part in parts) for sought in gold.split(","))


def abstention_phrase(prediction: str) -> bool:
    """Return whether one of the two official phrases is in `prediction`, in any case."""
    lowered = prediction.lower()
    return any(phrase in lowered for phrase in ABSTENTION_PHRASES)


def choice(reply: str, options: Sequence[str]) -> str:
    """Return the answer in a reply to a question with two options.

    A reply of one character is read as a letter, one of three as a letter in parentheses; anything but the first
    option's letter is read as the second's, even "No.". A reply of any other length is the answer.

    Args:
        reply: reply of the model.
        options: texts of (a) and (b).
    """
    letter = reply.strip().lower()
    if len(letter) == 1:
        return options[letter != "a"]
    if len(letter) == 3:
        return options[letter != "(a)"]
    return reply


def _no_category(name: str, where: str = "") -> HarnessError:
    fix = f"Choose another --judge. {nearest(name, CATEGORIES.values())}"
    return HarnessError(f"This judge grades LoCoMo, which has no question type '{name}'", where=where, fix=fix)


@lru_cache(100_000)
def _stem(word: str) -> str:
    return _stemmer().stem(word)


@cache
def _stemmer() -> "PorterStemmer":
    # Imported here because NLTK takes most of a second to load.
    from nltk.stem import PorterStemmer

    return PorterStemmer()


MEM0_F1 = "offline/mem0-f1"
MEM0_BLEU1 = "offline/mem0-bleu1"

_SPACES_FOR_MARKS = str.maketrans(".,!?", "    ")
_LEFT_OUT = "Mem0's evaluation leaves adversarial questions out: it has no rule to grade them by"


@cache
def mem0_f1_judge() -> RuleJudge:
    """Return the judge that grades by `set_f1`, which is not LoCoMo's official F1."""
    return _judge("set-F1", MEM0_F1, set_f1, {})


@cache
def mem0_bleu1_judge() -> RuleJudge:
    """Return the judge that grades by `bleu1`."""
    parameters = {"smoothing": "method1", "split_sentences": False, "weights": [1, 0, 0, 0]}
    return _judge("BLEU-1", MEM0_BLEU1, bleu1, parameters)


SET_F1 = JudgeDefinition(rules=mem0_f1_judge)
BLEU1 = JudgeDefinition(rules=mem0_bleu1_judge)


def set_f1(prediction: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall of the distinct words both have; 0 without any.

    Words are separated by spaces, in lower case, with `.`, `,`, `!` and `?` read as spaces.
    """
    predicted, sought = _words(prediction), _words(gold)
    shared = len(predicted & sought)
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(sought)
    return 2 * precision * recall / (precision + recall)


def bleu1(prediction: str, gold: str) -> float:
    """Return BLEU (Papineni et al. 2002) of single words against one reference, with brevity penalty.

    It is NLTK's `sentence_bleu` with smoothing method 1 on the words of NLTK's Treebank tokenizer in lower case. Texts
    without a common word, even empty ones, give 0.
    """
    # Imported here because NLTK takes most of a second to load.
    from nltk.tokenize import word_tokenize
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    predicted, sought = (word_tokenize(text.lower(), preserve_line=True) for text in (prediction, gold))
    return float(sentence_bleu([sought], predicted, (1, 0, 0, 0), SmoothingFunction().method1))


def _words(text: str) -> set[str]:
    return set(text.lower().translate(_SPACES_FOR_MARKS).split())


def _judge(metric: str, spec: str, measure: Callable[[str, str], float], parameters: dict[str, Any]) -> RuleJudge:
    """Return a judge whose label is True for full credit; an adversarial question gets none."""

    def grade(_: Question, gold: Gold, hypothesis: str) -> Verdict:
        if category_of(gold) == "adversarial":
            return Verdict(None, _LEFT_OUT)
        score = measure(hypothesis, str(gold.answer))
        return Verdict(score == 1, f"{metric} {score:.3f}", score)

    name = f"Mem0 {metric}"
    version = f"{name} v1: evaluation/metrics/utils.py at b3ede5b7c"
    return rule_judge(spec, grade, name=name, version=version, metric=metric, parameters=parameters)
