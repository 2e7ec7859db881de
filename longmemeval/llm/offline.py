"""Models that need no language model: one finds the best sentence in what was recalled, one replays a file."""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from longmemeval.errors import HarnessError, ModelError
from longmemeval.event_loop import in_thread
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.records import Usage
from longmemeval.text.words import content_words
from longmemeval.text_files import UnreadableError, decode_json, read_text

ABSTENTION = "I don't know: nothing in the history answers this."

MINIMUM_COVERAGE = 0.36
"""A sentence is an answer when it and its neighbours hold at least this share of the question's content words.

Measured on 200 questions about long conversations: put to a whole conversation that is not about them, more than nine
in ten are refused; put to their own, one in four.
"""

FIRST_PERSON_FACTOR = 1.2
"""What users say of themselves answers questions about them more often than what an assistant says in general."""

QUESTION_FACTOR = 0.5
"""A question seldom answers another."""

NEAR_EQUAL = 0.9
"""Among sentences with at least this share of the best score the latest counts: facts change."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9])|\s*\n\s*")
_QUESTION_END = re.compile(r"\?[\"')\]*]*$")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur)\b")


class ExtractiveModel:
    """Answers with the sentence of the passages that matches the question best, or abstains; never calls out.

    How it chooses: see `best_sentence`. The same request always gets the same answer. Without a question, as when it is
    asked to take notes, the passage is the last user message and the answer is the sentence with most of its words.
    """

    @property
    def spec(self) -> str:
        """`offline/extractive`."""
        return "offline/extractive"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The best sentence or `ABSTENTION`; calls keep their order."""
        return await in_thread(self._complete, request)

    def _complete(self, request: ChatRequest) -> ChatReply:
        started = time.perf_counter()
        if request.question:
            text = best_sentence(request.question, request.passages, minimum_coverage=MINIMUM_COVERAGE)
        else:
            message = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
            text = best_sentence(message, [message], minimum_coverage=0.0)
        return _reply(self.spec, text or ABSTENTION, started)


class ScriptedModel:
    """Answers each question with the text a file holds for it.

    Args:
        path: JSONL with `question_id` and `hypothesis` on each line (the official format; other fields are passed
            over), or one JSON object from question id to text.

    Raises:
        HarnessError: the file cannot be read, or a line does not hold what it should.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hypotheses = _read_hypotheses(path)
        if not self._hypotheses:
            raise HarnessError("The file holds no answers", where=str(path))

    @property
    def spec(self) -> str:
        """`offline/scripted:FILE`."""
        return f"offline/scripted:{self._path}"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The text for `request.question_id`.

        Raises:
            ModelError: the file has none.
        """
        started = time.perf_counter()
        text = self._hypotheses.get(request.question_id)
        if text is None:
            raise ModelError(f"No answer for question {request.question_id!r}", where=str(self._path))
        return _reply(self.spec, text, started)


class _Candidate(NamedTuple):
    score: float
    passage: int
    sentence: str


def best_sentence(question: str, passages: Iterable[str], *, minimum_coverage: float) -> str | None:
    """The sentence that matches the question best.

    A sentence scores the share of the question's content words it holds, compared by `stem`; the fewer passages hold a
    word, the more it counts. First-person sentences are preferred to others, statements to questions, and among nearly
    equal sentences those of the latest passage.

    Args:
        question: the question.
        passages: texts of any number of sentences, oldest first.
        minimum_coverage: share of the question's content words that a sentence must hold together with the sentences
            right before and after it in its passage, 0 to 1.

    Returns:
        The sentence as it is in its passage; None when none holds enough of the question.
    """
    texts = list(passages)
    wanted = frozenset(content_words(question))
    held = [wanted.intersection(content_words(text)) for text in texts]
    weights = _weights(wanted, held)
    candidates = [
        _Candidate(score, number, sentence)
        for number, (text, words) in enumerate(zip(texts, held, strict=True))
        if words and _coverage(words, weights) >= minimum_coverage
        for score, sentence in _scored(text, weights, minimum_coverage)
    ]
    if not candidates:
        return None
    enough = NEAR_EQUAL * max(candidate.score for candidate in candidates)
    latest = max(candidate.passage for candidate in candidates if candidate.score >= enough)
    in_latest = (candidate for candidate in candidates if candidate.passage == latest)
    return max(in_latest, key=lambda candidate: candidate.score).sentence


def _weights(wanted: Iterable[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    """What each wanted word counts, by the passages that hold it; together 1. Sorted, so that sums never differ."""
    rarity = {word: math.log1p((1 + len(held)) / (1 + sum(word in words for words in held))) for word in sorted(wanted)}
    total = sum(rarity.values())
    return {word: value / total for word, value in rarity.items()}


def _coverage(words: frozenset[str], weights: Mapping[str, float]) -> float:
    return sum(weight for word, weight in weights.items() if word in words)


def _scored(passage: str, weights: Mapping[str, float], minimum_coverage: float) -> Iterator[tuple[float, str]]:
    """The sentences of one passage that hold a wanted word and, with their neighbours, enough of them; with scores."""
    sentences = [sentence for sentence in map(str.strip, _SENTENCE_END.split(passage)) if sentence]
    held = [frozenset(weights).intersection(content_words(sentence)) for sentence in sentences]
    for place, (sentence, words) in enumerate(zip(sentences, held, strict=True)):
        around = frozenset().union(*held[max(0, place - 1) : place + 2])
        if words and _coverage(around, weights) >= minimum_coverage:
            yield _coverage(words, weights) * _factor(sentence), sentence


def _factor(sentence: str) -> float:
    first_person = FIRST_PERSON_FACTOR if _FIRST_PERSON.search(sentence) else 1.0
    return first_person * (QUESTION_FACTOR if _QUESTION_END.search(sentence) else 1.0)


def _reply(spec: str, text: str, started: float) -> ChatReply:
    elapsed = (time.perf_counter() - started) * 1000
    return ChatReply(text, "stop", Usage(calls=1), served_model=spec, latency_ms=elapsed)


class _Line(msgspec.Struct, frozen=True):
    question_id: str
    hypothesis: str


def _read_hypotheses(path: Path) -> dict[str, str]:
    try:
        text = read_text(path)
    except (OSError, UnreadableError) as error:
        raise HarnessError(f"The scripted answers cannot be read: {error}", where=str(path)) from error
    try:
        whole = decode_json(text, object)
    except UnreadableError:
        whole = None
    if not isinstance(whole, dict) or "question_id" in whole:
        return _read_lines(text, path)
    try:
        return msgspec.convert(whole, dict[str, str])
    except msgspec.ValidationError as error:
        raise HarnessError(f"Not an object from question id to text: {error}", where=str(path)) from error


def _read_lines(text: str, path: Path) -> dict[str, str]:
    hypotheses: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = decode_json(line, _Line)
        except UnreadableError as error:
            raise HarnessError(f"Not a question_id with its hypothesis: {error}", where=where) from error
        if entry.question_id in hypotheses:
            raise HarnessError(f"A second answer for question {entry.question_id!r}", where=where, fix="Remove one")
        hypotheses[entry.question_id] = entry.hypothesis
    return hypotheses
