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
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.factconsolidation.loader import FactConsolidationDataset, FactGold, chunked
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import RuleJudge, Verdict, rule_judge
from longmemeval.llm.protocol import ChatMessage
from longmemeval.reading.prompts import Compose
from longmemeval.records import Gold, Question, Recall

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


# The way MemoryAgentBench asks FactConsolidation's questions: `utils/templates.py` at 455306d, verbatim (MIT).
#
# | form | messages sent after the system message | |---|---| | long-context | the whole list in wrapped chunks of
# 4,096 tokens, then the question | | rag | `Memory 1:` and the best item, and so on, then the question |
#
# The first form is for a memory that recalls everything, the second for any other. The answer has at most 10 tokens.

LONG_CONTEXT, RAG = "long-context", "rag"
CHUNK_TOKENS = 4096

_COMMON = ("a failed call counts as a wrong answer, where theirs leaves the question out",)
DEVIATIONS = {
    LONG_CONTEXT: (
        "chunks are cut between facts, where theirs often part a fact from its serial number",
        "chunks carry the stand-in date of the data, where theirs carry the time of the machine's clock",
        "what exceeds the model's window is handled by --on-overflow, where theirs drops the oldest facts",
        *_COMMON,
    ),
    RAG: (
        "the memory is asked the question alone, where theirs gets the sentence around it",
        "the memory finds what is shown, within its own budget and units, where theirs takes the 10 best chunks of "
        "512 or 4,096 tokens",
        *_COMMON,
    ),
}
"""Deviations from the authors' code, by form."""


class _File(Struct, frozen=True):
    texts: dict[str, str]


@cache
def _texts() -> dict[str, str]:
    return msgspec.json.decode(Path(__file__).with_name("official_texts.json").read_bytes(), type=_File).texts


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    form = LONG_CONTEXT if whole_history else RAG
    return {
        "name": "official",
        "form": form,
        "texts_sha256": {name: sha256_text(text) for name, text in _texts().items()},
        "deviations": list(DEVIATIONS[form]),
    }


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    form, differs = record.get("form"), "; ".join(record.get("deviations", ()))
    return f"MemoryAgentBench's answering protocol, {form}, in the authors' words. Unlike their code: {differs}."


def compose(dataset: FactConsolidationDataset, data_dir: Path, record: Mapping[str, Any]) -> Compose:
    """Return the composer of the messages of a call.

    Args:
        dataset: the dataset of the questions.
        data_dir: not used: the texts are shipped.
        record: a manifest's `settings.protocol`.
    """
    return partial({LONG_CONTEXT: _long_context, RAG: _rag}[record["form"]], _texts())


def _long_context(texts: Mapping[str, str], question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    return _messages(texts, "\n".join(_wrapped(texts["memorize"], recall)), question)


def _rag(texts: Mapping[str, str], question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    # Items are in order of time, or in the memory's own order; theirs are in order of rank.
    ranked = sorted(recall.items, key=lambda item: (item.rank is None, item.rank or 0))
    lines = (f"Memory {place}:\n{item.text}\n" for place, item in enumerate(ranked, start=1))
    return _messages(texts, "\n".join(lines), question)


def _messages(texts: Mapping[str, str], context: str, question: Question) -> tuple[ChatMessage, ...]:
    # The recalled text may contain a placeholder, and the question is not a format string.
    query = texts["query_long_context_agent"].replace("{question}", question.text)
    return ChatMessage("system", texts["system"]), ChatMessage("user", f"{context}\n{query}")


def _wrapped(memorize: str, recall: Recall) -> Iterator[str]:
    dates = {item.text: item.date for item in recall.items}
    for facts in chunked([item.text for item in recall.items], CHUNK_TOKENS):
        date = dates[facts[0]]
        before, _, after = memorize.partition("{context}")
        yield before.replace("{time_stamp}", f"{date:%Y-%m-%d %H:%M:%S}" if date else "") + "\n".join(facts) + after
