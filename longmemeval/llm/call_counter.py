"""A stand-in for a chat model that calls nothing and records the requests: the basis of estimates."""

from functools import cached_property

from msgspec import Struct

from longmemeval.llm.extractive.tool_use import next_calls
from longmemeval.llm.options import is_offline
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.llm.tokens import TokenCounter, framing_tokens, token_counter
from longmemeval.records import Usage


class Call(Struct, frozen=True):
    """One call that would have been made."""

    prompt_tokens: int
    max_tokens: int


class CallCounter:
    """Counts the tokens of each request; its replies have maximum length, so that nothing is underestimated.

    Args:
        spec: spec of the model it stands for, whose tokens are counted.
        silent: True for empty replies instead, which no cache keeps.
    """

    def __init__(self, spec: str, *, silent: bool = False) -> None:
        self._silent = silent
        self.calls: list[Call] = []
        self.spec = spec
        """Spec of the model that the counter stands for."""

    @cached_property
    def tokens(self) -> TokenCounter:
        """Token counter of that model."""
        return token_counter(self.spec)

    def taken(self) -> list[Call]:
        """Return the calls since this was last asked."""
        calls, self.calls = self.calls, []
        return calls

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Record the size of `request`, as the model will count it."""
        messages, tokens = request.messages, request.prompt_tokens
        # For several messages the reader counts the texts in one piece, which is close enough for it.
        if tokens is None or (len(messages) > 1 and not request.tools):
            tokens = sum(self.tokens.count(message.content) for message in messages)
        framing = 0 if is_offline(self.spec) else framing_tokens(len(messages))
        self.calls.append(Call(tokens + framing, request.max_tokens))
        if calls := next_calls(request):
            return ChatReply("", "tool_calls", Usage(), tool_calls=calls)
        text = "" if self._silent else longest_reply(request.max_tokens)
        return ChatReply(text, "stop", Usage())


def longest_reply(tokens: int) -> str:
    """Return a text of about `tokens` tokens by any counter."""
    return " one" * tokens
