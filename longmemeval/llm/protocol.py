"""The protocol of chat models, and the records of one call."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from longmemeval.llm.finish_reasons import is_whole
from longmemeval.records import Asked, Usage


class ToolCall(Struct, frozen=True):
    """A tool call that a model asks for."""

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it; it may be invalid."""


class ChatMessage(Struct, frozen=True, omit_defaults=True):
    """One message of a request."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls of an assistant message."""
    tool_call_id: str = ""
    """Id of the call whose result a tool message contains."""


class Passage(Struct, frozen=True):
    """A recalled text with its speaker and date, if the memory gives them."""

    text: str
    speaker: str = ""
    date: datetime | None = None


class ChatRequest(Struct, frozen=True):
    """One call. Only `messages`, `max_tokens`, `temperature` and the tools ever leave the process.

    `max_tokens` is the limit of the visible reply: a model that reasons is sent one with room for that (`ReplyLimits`).

    The question and its passages serve the offline models, which answer without a language model.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int
    temperature: float = 0.0
    question_id: str = ""
    question: str = ""
    question_date: datetime | None = None
    options: tuple[str, ...] = ()
    """Answers that the question offers, if any."""
    passages: tuple[str, ...] = ()
    dated_passages: Callable[[], tuple[Passage, ...]] = tuple
    """Returns the passages with speakers and dates; computed on demand."""
    last_session: Callable[[], tuple[str, ...]] = tuple
    """Returns the passages of the session with the latest date; computed on demand."""
    prompt_tokens: int | None = None
    """Tokens of `messages` by the model's own counter, if already counted."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tools that the model may call, each described as a function of OpenAI's protocol."""
    must_answer: bool = False
    """True if the model may not call tools any more."""


class ChatReply(Struct, frozen=True):
    """The reply to a successful call."""

    text: str
    """What the model says, without reasoning that it writes before."""
    finish_reason: str
    usage: Usage
    served_model: str = ""
    """Name of the model in the server's reply."""
    attempts: int = 1
    latency_ms: float | None = 0.0
    """Milliseconds of the call; None if not known, as for a reply in a batch."""
    redacted: bool = False
    """True if the server repeated a secret, which was removed from `text`."""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    """Reasoning that the model shows, in its text or apart; no part of its answer."""
    asked: Asked | UnsetType = UNSET
    """How it was asked for; absent if exactly as the request says."""

    refusal: str = ""
    """What the server says about the reply, in place of a text."""

    @property
    def why_empty(self) -> str:
        """What an empty reply has in place of a text, in words; empty if nothing."""
        if self.refusal:
            return f"the server said: {' '.join(self.refusal.split())[:300]}"
        if self.reasoning:
            return "it has reasoning alone"
        return "" if self.finish_reason else "it has no choices"

    @property
    def ending(self) -> str:
        """The finish reason, for messages; of an empty reply also what it has in place of a text."""
        said = f"; {self.why_empty}" if self.is_empty and self.why_empty else ""
        return f"finish reason: {self.finish_reason or 'unknown'}{said}"

    @property
    def broke_off(self) -> str:
        """How it broke off, for messages; empty if it is whole."""
        return "" if is_whole(self.finish_reason) else self.ending

    @property
    def whole(self) -> str:
        """Everything that the model wrote and the server shows, reasoning and tool calls too."""
        calls = (part for call in self.tool_calls for part in (call.name, call.arguments))
        return "\n".join(filter(None, (self.reasoning, self.text, *calls)))

    @property
    def is_starved(self) -> bool:
        """True if it is empty because the limit was spent before the first visible word."""
        return self.is_empty and self.finish_reason == "length"

    @property
    def is_empty(self) -> bool:
        """True if it contains neither text nor tool calls."""
        return not self.text.strip() and not self.tool_calls


class ChatModel(Protocol):
    """A model that answers one request at a time; many calls may be under way at once."""

    @property
    def spec(self) -> str:
        """The model as the user names it, e.g. `openai/gpt-4o-2024-08-06` or `offline/extractive`."""
        ...

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request`.

        Raises:
            ModelError: this call failed for good.
            FatalModelError: no call can succeed.
        """
        ...


# A limit on concurrent calls.


class LimitedChatModel:
    """A model that passes calls on to `model`, at most `limit` at a time; the others wait."""

    def __init__(self, model: ChatModel, limit: int) -> None:
        self._model, self.spec = model, model.spec
        self._free = asyncio.Semaphore(limit)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` as soon as a slot is free."""
        async with self._free:
            return await self._model.complete(request)
