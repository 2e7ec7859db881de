"""A prompt on its way: the call, and the line of `prompts.jsonl` that tells of it."""

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from longmemeval.files import sha256_bytes
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.reading.overflow import Fitted
from longmemeval.records import Question, Recall

Purpose = Literal["note", "answer"]


class SentPrompt(Struct, frozen=True):
    """One line of `prompts.jsonl`: a prompt exactly as sent."""

    question_id: str
    purpose: Purpose
    messages: tuple[ChatMessage, ...]
    sha256: str


class EncodedPrompt(Struct, frozen=True):
    """A `SentPrompt` whose messages are JSON already: they are encoded once, for their hash and for the file."""

    question_id: str
    purpose: Purpose
    messages: Raw
    sha256: str


class Prompt(Struct, frozen=True):
    """A call that is ready to be made."""

    request: ChatRequest
    sent: EncodedPrompt
    tokens: int
    recall: Recall
    """What of the recall is in it."""


def prompt_of(question: Question, purpose: Purpose, fitted: Fitted, max_tokens: int) -> Prompt:
    """The call that sends a prompt that fits."""
    messages = (ChatMessage("user", fitted.prompt),)
    request = ChatRequest(
        messages=messages,
        max_tokens=max_tokens,
        question_id=question.question_id,
        question=question.text,
        passages=tuple(item.text for item in fitted.recall.items),
        prompt_tokens=fitted.prompt_tokens,
    )
    encoded = msgspec.json.encode(messages)
    sent = EncodedPrompt(question.question_id, purpose, Raw(encoded), sha256_bytes(encoded))
    return Prompt(request, sent, fitted.prompt_tokens, fitted.recall)
