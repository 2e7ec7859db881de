"""A prompt to send: the call, and its line in `prompts.jsonl`."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.llm.protocol import ChatMessage, ChatRequest, Passage
from longmemeval.reading.overflow import Fitted
from longmemeval.records import Question, Recall

Purpose = Literal["note", "step", "answer"]
"""Purpose of a call; in a `step` the model may call tools."""
TOKENS_OF_A_MESSAGE = 4
"""Tokens that each further message adds to a call, besides its text."""
Messages = tuple[ChatMessage, ...]
Compose = Callable[[Question, Recall], Messages]
"""A function from a question and the shown part of its recall to all messages of the call."""


class SentPrompt(Struct, frozen=True):
    """One line of `prompts.jsonl`: a prompt exactly as sent."""

    question_id: str
    purpose: Purpose
    messages: tuple[ChatMessage, ...]
    sha256: str


class EncodedPrompt(Struct, frozen=True):
    """A `SentPrompt` whose messages are already JSON: they are encoded once, for their hash and for the file."""

    question_id: str
    purpose: Purpose
    messages: Raw
    sha256: str


class Prompt(Struct, frozen=True):
    """A prepared call."""

    request: ChatRequest
    sent: EncodedPrompt
    tokens: int
    recall: Recall
    """The part of the recall it contains."""


def prompt_of(
    question: Question, purpose: Purpose, fitted: Fitted[Messages], max_tokens: int, temperature: float = 0.0
) -> Prompt:
    """Return the call that sends a fitted prompt."""
    messages = fitted.prompt
    request = ChatRequest(
        messages=messages,
        max_tokens=max_tokens,
        temperature=temperature,
        question_id=question.question_id,
        question=question.text,
        question_date=question.date,
        options=question.options,
        passages=tuple(item.text for item in fitted.recall.items),
        dated_passages=partial(_passages, fitted.recall),
        last_session=partial(_last_session, fitted.recall),
        prompt_tokens=fitted.prompt_tokens,
    )
    encoded = msgspec.json.encode(messages)
    sent = EncodedPrompt(question.question_id, purpose, Raw(encoded), sha256_bytes(encoded))
    return Prompt(request, sent, fitted.prompt_tokens, fitted.recall)


def question_text(question: Question) -> str:
    """Return the question as prompts show it."""
    return f"{question.text} {question.appended}" if question.appended else question.text


def _passages(recall: Recall) -> tuple[Passage, ...]:
    return tuple(Passage(item.text, item.speaker, item.date) for item in recall.items)


def _last_session(recall: Recall) -> tuple[str, ...]:
    """Return the texts of the latest dated item's session, or of its day if the memory has no sessions."""
    dated = [(item.date, item) for item in recall.items if item.date]
    if not dated:
        return ()
    latest_date, latest = max(dated, key=lambda pair: pair[0])
    if latest.thread_ids:
        return tuple(item.text for item in recall.items if set(item.thread_ids) & set(latest.thread_ids))
    return tuple(item.text for date, item in dated if date.date() == latest_date.date())
