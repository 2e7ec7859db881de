"""The two scores without a model in the Mem0 paper (arXiv 2504.19413, `evaluation/metrics/utils.py` in its repository).

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

from collections.abc import Callable
from functools import cache
from typing import Any

from longmemeval.benchmarks.locomo.f1 import category_of
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.records import Gold, Question

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
