"""Counting tokens as a chat model does, as far as that is possible without a network."""

import math
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from longmemeval.llm.litellm_package import litellm_folder
from longmemeval.llm.options import ModelOptions, is_offline
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.llm.reasoning import ReplyLimits
from longmemeval.records import Usage

if TYPE_CHECKING:
    from tiktoken import Encoding


_FALLBACK = "cl100k_base"
_CACHE_FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""Files bundled with LiteLLM, named as tiktoken does: the SHA-1 of the address at which an encoding is published."""


ENCODINGS = ("cl100k_base", "o200k_base")
"""Encodings used to count for models, and by `prepare` to count a whole history."""


class Counted(Struct, frozen=True, gc=False):
    """Token counts of a text and of its inner part.

    The inner part begins and ends so that it has the same tokens in any context.
    """

    tokens: int
    inner_tokens: int = 0
    start: int = 0
    """Start of the inner part."""
    end: int = 0
    """End of the inner part; 0 if there is none."""


class TokenCounter(Protocol):
    """Counts the tokens of a text. `name` is recorded in the manifest: numbers of two counters are not comparable."""

    @property
    def name(self) -> str:
        """Method of counting, e.g. `tiktoken/o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens in `text`; 0 for an empty one."""
        ...

    def counted(self, text: str) -> Counted:
        """Count the tokens in `text` and remember the counts for a while."""
        ...

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """Count the tokens in `whole`, which contains `texts` in this order, possibly changed.

        Args:
            whole: a text such as a prompt; its counts are the same as by `counted`, but not remembered.
            texts: the texts that it contains.
            counts: token counts of `texts`.
        """
        ...


def token_counter(spec: str) -> TokenCounter:
    """Return the counter for a chat model.

    For offline models it counts a quarter of the characters, a rule of thumb for English. For others it uses the
    encoding that tiktoken names, or `cl100k_base` if there is none or its file is not available; `name` then says so.
    """
    if is_offline(spec):
        return CharacterCounter()
    from tiktoken import encoding_name_for_model

    model = spec.rsplit("/", 1)[-1]
    try:
        wanted = encoding_name_for_model(model)
    except KeyError:
        return TiktokenCounter(_FALLBACK, stands_for=spec)
    if not (_bundled_files() / _CACHE_FILES.get(wanted, "missing")).is_file():
        return TiktokenCounter(_FALLBACK, stands_for=wanted)
    return TiktokenCounter(wanted)


def framing_tokens(messages: int) -> int:
    """Return the tokens of a chat call besides the texts of its messages.

    By OpenAI's recipe ("How to count tokens with tiktoken", for all models since gpt-3.5-turbo-0613): three around each
    message, one for its role, and three that begin the reply.
    """
    return 4 * messages + 3


def encoding_counter(name: str) -> "TiktokenCounter":
    """Return the counter for one of `ENCODINGS`."""
    return TiktokenCounter(name)


def context_window(spec: str) -> int | None:
    """Return the maximum prompt tokens of a model by LiteLLM's table; None if unknown, and for offline models.

    Raises:
        FatalModelError: no such provider.
    """
    if is_offline(spec):
        return None
    from longmemeval.llm.providers import table_entry

    entry = table_entry(spec)
    window = entry.get("max_input_tokens") if entry is not None else None
    return int(window) if window else None


class CharacterCounter:
    """A quarter of the characters, rounded up."""

    name = "characters/4"

    def count(self, text: str) -> int:
        """Estimate the tokens in `text` by rule of thumb."""
        return math.ceil(len(text) / 4)

    def counted(self, text: str) -> Counted:
        """Estimate the tokens in `text` by rule of thumb."""
        return Counted(self.count(text))

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """Estimate the tokens in `whole` by rule of thumb."""
        return Counted(self.count(whole))


_BORDER = re.compile("[a-z](?= [A-Za-z])")
_LAST_BORDER = re.compile("(?s:.*)[a-z](?= [A-Za-z])")
"""Border between two pieces of the encodings' first split, whatever the context.

Encodings split a text by a pattern before they look for tokens, and no token crosses a border of that split. In both
encodings in use, no piece continues from a letter to a blank, and none looks back.
"""
_EDGE = 80
"""Number of characters at either end of a text to search for such a border."""
_FRAME = 4096
"""Maximum number of characters between two texts of a prompt."""
_BEGINNING = 40
_REMEMBERED_CHARACTERS = 16_000_000


class TiktokenCounter:
    """Counter for one of OpenAI's encodings. Text that looks like a special token counts as plain text.

    Counts are remembered; if a text contains remembered texts, only the rest is encoded. Not thread-safe.

    Args:
        encoding_name: such as `o200k_base`.
        stands_for: model or encoding whose own tokens are unknown; empty when the encoding is the right one.
    """

    def __init__(self, encoding_name: str, *, stands_for: str = "") -> None:
        self.encoding_name = encoding_name
        self._known: dict[str, Counted] = {}
        self._room = _REMEMBERED_CHARACTERS
        self.name = f"tiktoken/{encoding_name}" + (f" (in place of {stands_for})" if stands_for else "")

    @cached_property
    def encoding(self) -> "Encoding":
        """The encoding, loaded when the first text is counted: that takes a third of a second."""
        return encoding_of(self.encoding_name)

    def count(self, text: str) -> int:
        """Count the tokens in `text`."""
        return self.counted(text).tokens

    def encode_count(self, text: str) -> int:
        """Count the tokens in `text` without using or updating remembered counts."""
        return len(self.encoding.encode_ordinary(text))

    def counted(self, text: str) -> Counted:
        """Count the tokens in `text` and its inner part."""
        counted = self._known.get(text)
        if counted is None:
            start, end = _inner(text)
            inner_tokens = self.encode_count(text[start:end]) if end else 0
            counted = Counted(inner_tokens + self._outside(text, start, end), inner_tokens, start, end)
            self._known[text] = counted
            self._room -= len(text)
            self._forget()
        return counted

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """Count the tokens in `whole`, encoding again only the ends of those `texts` it contains in order."""
        tokens = done = 0
        between: list[str] = []
        for text, counted in zip(texts, counts, strict=True):
            start, end = counted.start, counted.end
            # With a letter before it and two characters after it, the part keeps its borders in the whole.
            if end and (place := 1 + _place(whole, text[start - 1 : end + 2], done)):
                between.append(whole[done:place])
                tokens += counted.inner_tokens
                done = place + end - start
        # All pieces meet at borders, so their tokens add up.
        tokens += self.encode_count("".join(between) + whole[done:])
        start, end = _inner(whole)
        return Counted(tokens, tokens - self._outside(whole, start, end) if end else 0, start, end)

    def _outside(self, text: str, start: int, end: int) -> int:
        """Count the tokens around the inner part of `text`; both sides of the part are borders."""
        return self.encode_count(text[:start] + text[end:])

    def _forget(self) -> None:
        """Forget the oldest texts beyond the capacity."""
        while self._room < 0:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._room += len(oldest)


def _place(prompt: str, part: str, start: int) -> int:
    """Return the position of `part` in `prompt`, soon after `start`; -1 if it is not there."""
    # Searching only for the start of `part` is ten times as fast, and right unless that start occurs twice.
    place = prompt.find(part[:_BEGINNING], start, start + _BEGINNING + _FRAME)
    if place < 0 or prompt.startswith(part, place):
        return place
    return prompt.find(part, place, start + len(part) + _FRAME)


def counted_before(text: str, tokens: int, inner_tokens: int) -> Counted:
    """Rebuild the result of `TiktokenCounter.counted` for `text` from its two stored counts."""
    return Counted(tokens, inner_tokens, *_inner(text))


def _inner(text: str) -> tuple[int, int]:
    """Return the start and end of the part of `text` whose tokens are the same in any context; (0, 0) if none."""
    first = _BORDER.search(text, 0, _EDGE)
    last = _LAST_BORDER.match(text, max(0, len(text) - _EDGE))
    return (first.end(), last.end()) if first and last and first.end() < last.end() else (0, 0)


def _bundled_files() -> Path:
    """Return the folder of encodings inside LiteLLM."""
    return litellm_folder() / "litellm_core_utils" / "tokenizers"


def encoding_of(name: str) -> "Encoding":
    """Return an encoding by name, from the files bundled with LiteLLM."""
    from tiktoken import get_encoding

    # tiktoken would otherwise download the file on first use.
    os.environ["TIKTOKEN_CACHE_DIR"] = str(_bundled_files())
    return get_encoding(name)


# A stand-in for a chat model that calls nothing and records the requests: the basis of estimates.


class Call(Struct, frozen=True):
    """One call that would have been made."""

    prompt_tokens: int
    max_tokens: int


class CallCounter:
    """Counts the tokens of each request; its replies have maximum length, so that nothing is underestimated.

    Args:
        spec: spec of the model it stands for, whose tokens are counted.
        silent: True for empty replies instead, which no cache keeps.
        tokens: token counter of the model; None: a new one.
        options: options of the calls, which decide how much room there is for reasoning.
    """

    def __init__(
        self,
        spec: str,
        *,
        silent: bool = False,
        tokens: TokenCounter | None = None,
        options: ModelOptions = ModelOptions(),
    ) -> None:
        self._silent = silent
        self.limits = ReplyLimits(spec, options)
        """The limits that the model is sent."""
        self._tokens = tokens
        self.calls: list[Call] = []
        self.spec = spec
        """Spec of the model that the counter stands for."""

    @cached_property
    def tokens(self) -> TokenCounter:
        """Token counter of that model."""
        return self._tokens or token_counter(self.spec)

    def taken(self) -> list[Call]:
        """Return the calls since this was last asked."""
        calls, self.calls = self.calls, []
        return calls

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Record the size of `request`, as the model will count it."""
        from longmemeval.llm.extractive.answers import next_calls

        messages, tokens = request.messages, request.prompt_tokens
        # For several messages the reader counts the texts in one piece, which is close enough for it.
        if tokens is None or (len(messages) > 1 and not request.tools):
            tokens = sum(self.tokens.count(message.content) for message in messages)
        framing = 0 if is_offline(self.spec) else framing_tokens(len(messages))
        self.calls.append(Call(tokens + framing, self.limits.first(request.max_tokens)))
        if calls := next_calls(request):
            return ChatReply("", "tool_calls", Usage(), tool_calls=calls)
        text = "" if self._silent else longest_reply(request.max_tokens)
        return ChatReply(text, "stop", Usage())


def longest_reply(tokens: int) -> str:
    """Return a text of about `tokens` tokens by any counter."""
    return " one" * tokens
