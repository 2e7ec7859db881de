"""Propose evidence for questions by recall, and store the accepted evidence."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.loader import EVIDENCE, AskedQuestion, load, read_evidence, read_questions
from longmemeval.benchmarks.conversations.loader import QUESTIONS as FILE
from longmemeval.core.files import write_atomic
from longmemeval.core.text.words import content_words
from longmemeval.records import Message
from longmemeval.storage.messages import haystack_messages


class Proposal(Struct, frozen=True):
    """Messages that may be the evidence of one question, best first."""

    asked: AskedQuestion
    messages: tuple[Message, ...]


def proposals(folder: Path, top: int) -> Iterator[Proposal]:
    """Yield proposals for the questions that have an answer and no evidence.

    Messages are ranked by BM25 over the words of question and answer.
    """
    from rank_bm25 import BM25Okapi

    messages = haystack_messages(next(load(folder, "").haystacks()))
    index = BM25Okapi([content_words(message.content) or [""] for message in messages])
    labelled = read_evidence(folder)
    for question in read_questions(folder / FILE):
        if question.answer is None or question.evidence or question.id in labelled:
            continue
        scores = index.get_scores(content_words(f"{question.question} {question.answer}"))
        best = sorted(range(len(messages)), key=lambda place: -scores[place])[:top]
        yield Proposal(question, tuple(messages[place] for place in best))


def accept(folder: Path, question_id: str, message_ids: list[str]) -> None:
    """Store the evidence of a question in `evidence.json`; an empty list records that there is none."""
    evidence = {**read_evidence(folder), question_id: tuple(message_ids)}
    write_atomic(folder / EVIDENCE, msgspec.json.format(msgspec.json.encode(evidence, order="sorted")))
