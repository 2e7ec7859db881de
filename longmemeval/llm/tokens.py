"""Counting tokens the way a chat model does, as far as that can be known without a network."""

import importlib.util
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from longmemeval.llm.options import is_offline

if TYPE_CHECKING:
    from tiktoken import Encoding

_FALLBACK = "cl100k_base"
_CACHE_FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""The files LiteLLM brings along, named as tiktoken names them: SHA-1 of the address an encoding is published at."""


ENCODINGS = ("cl100k_base", "o200k_base")
"""What models are counted by, and what `prepare` counts a whole history by."""


class Counted(Struct, frozen=True, gc=False):
    """The tokens of a text, and of its inner part: it begins and ends so that it has the same in any surroundings."""

    tokens: int
    inner_tokens: int = 0
    start: int = 0
    """Where the inner part begins."""
    end: int = 0
    """Where it ends; 0: there is none."""


class TokenCounter(Protocol):
    """Counts the tokens of a text. `name` goes into the manifest: numbers of two counters do not compare."""

    @property
    def name(self) -> str:
        """How tokens are counted, e.g. `tiktoken/o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """Tokens in `text`; 0 for an empty one."""
        ...

    def counted(self, text: str) -> Counted:
        """The tokens in `text`; they are remembered for a while."""
        ...

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """The tokens in `whole`, which repeats `texts`, perhaps changed, in this order: the same as of any text.

        Args:
            whole: a prompt, say; it is not remembered.
            texts: what stands in it.
            counts: their tokens.
        """
        ...


def token_counter(spec: str) -> TokenCounter:
    """The counter for a chat model.

    Offline models get a quarter of the characters, a rule of thumb for English. Others get the encoding that tiktoken
    names for them, or `cl100k_base` where it names none or its file is not at hand; `name` then says so.
    """
    if is_offline(spec):
        return CharacterCounter()
    from tiktoken import encoding_name_for_model

    model = spec.rsplit("/", 1)[-1]
    try:
        wanted = encoding_name_for_model(model)
    except KeyError:
        return TiktokenCounter(encoding_of(_FALLBACK), stands_for=spec)
    if not (_bundled_files() / _CACHE_FILES.get(wanted, "missing")).is_file():
        return TiktokenCounter(encoding_of(_FALLBACK), stands_for=wanted)
    return TiktokenCounter(encoding_of(wanted))


def framing_tokens(messages: int) -> int:
    """Return the tokens that a chat call has beside the texts of its messages.

    OpenAI's recipe ("How to count tokens with tiktoken", for all models since gpt-3.5-turbo-0613): three around each
    message and one for its role, and three that begin the reply.
    """
    return 4 * messages + 3


def encoding_counter(name: str) -> "TiktokenCounter":
    """The counter of one of `ENCODINGS`."""
    return TiktokenCounter(encoding_of(name))


def context_window(spec: str) -> int | None:
    """The most prompt tokens the model takes, by LiteLLM's table on disk; None when unknown and for offline models.

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
        """Tokens in `text`, by rule of thumb."""
        return math.ceil(len(text) / 4)

    def counted(self, text: str) -> Counted:
        """Tokens in `text`, by rule of thumb."""
        return Counted(self.count(text))

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """Tokens in `whole`, by rule of thumb."""
        return Counted(self.count(whole))


_BORDER = re.compile("[a-z](?= [A-Za-z])")
_LAST_BORDER = re.compile("(?s:.*)[a-z](?= [A-Za-z])")
"""Ends where one piece of the encodings' first split ends and the next begins, whatever stands around the place.

Encodings split a text by a pattern before they look for tokens, and no token reaches over a border of that split. Of
both encodings in use no piece goes on from a letter to a blank, and none looks back.
"""
_EDGE = 80
"""Characters at either end of a text in which such a place is looked for."""
_FRAME = 4096
"""Characters of a prompt between two of its texts, at most."""
_BEGINNING = 40
_REMEMBERED_CHARACTERS = 16_000_000


class TiktokenCounter:
    """Tokens of one of OpenAI's encodings. Text that looks like a special token counts as plain text.

    Counts are remembered, and what repeats texts is counted by what stands around those in it. For one thread.

    Args:
        encoding: the encoding.
        stands_for: the model or encoding whose own tokens are not known; empty when the encoding is the right one.
    """

    def __init__(self, encoding: "Encoding", *, stands_for: str = "") -> None:
        self.encoding = encoding
        self._known: dict[str, Counted] = {}
        self._room = _REMEMBERED_CHARACTERS
        self.name = f"tiktoken/{encoding.name}" + (f" (in place of {stands_for})" if stands_for else "")

    def count(self, text: str) -> int:
        """Tokens in `text`."""
        return self.counted(text).tokens

    def encode_count(self, text: str) -> int:
        """Tokens in `text`, of which nothing is known and nothing remembered."""
        return len(self.encoding.encode_ordinary(text))

    def counted(self, text: str) -> Counted:
        """The tokens in `text`."""
        counted = self._known.get(text)
        if counted is None:
            start, end = _inner(text)
            inner_tokens = self.encode_count(text[start:end])
            counted = Counted(inner_tokens + self._outside(text, start, end), inner_tokens, start, end)
            self._known[text] = counted
            self._room -= len(text)
            self._forget()
        return counted

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        """The tokens in `whole`; of `texts` that stand in it in this order only the ends are counted again."""
        tokens = done = 0
        between: list[str] = []
        for text, counted in zip(texts, counts, strict=True):
            start, end = counted.start, counted.end
            # With a letter before it and two characters behind: so it has its borders in the whole too.
            if end and (place := 1 + _place(whole, text[start - 1 : end + 2], done)):
                between.append(whole[done:place])
                tokens += counted.inner_tokens
                done = place + end - start
        # All of these pieces meet at borders, so that together they have the tokens that each has alone.
        tokens += self.encode_count("".join(between) + whole[done:])
        start, end = _inner(whole)
        return Counted(tokens, tokens - self._outside(whole, start, end) if end else 0, start, end)

    def _outside(self, text: str, start: int, end: int) -> int:
        """Tokens of what stands around the inner part of `text`."""
        return self.encode_count(text[:start]) + self.encode_count(text[end:])

    def _forget(self) -> None:
        """Forget the oldest texts beyond the room there is."""
        while self._room < 0:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._room += len(oldest)


def _place(prompt: str, part: str, start: int) -> int:
    """Where `part` stands in `prompt`, soon behind `start`; -1: it does not."""
    # To look for its beginning alone is ten times as fast, and right unless that stands there twice.
    place = prompt.find(part[:_BEGINNING], start, start + _BEGINNING + _FRAME)
    if place < 0 or prompt.startswith(part, place):
        return place
    return prompt.find(part, place, start + len(part) + _FRAME)


def counted_before(text: str, tokens: int, inner_tokens: int) -> Counted:
    """What `TiktokenCounter.counted` said of `text`, from the two numbers that were kept of it."""
    return Counted(tokens, inner_tokens, *_inner(text))


def _inner(text: str) -> tuple[int, int]:
    """Where the part of `text` begins and ends whose tokens are the same in any surroundings; (0, 0): there is none."""
    first = _BORDER.search(text, 0, _EDGE)
    last = _LAST_BORDER.match(text, max(0, len(text) - _EDGE))
    return (first.end(), last.end()) if first and last and first.end() < last.end() else (0, 0)


def _bundled_files() -> Path:
    """The folder of encodings inside LiteLLM, found without importing it."""
    found = importlib.util.find_spec("litellm")
    folder = found.submodule_search_locations[0] if found and found.submodule_search_locations else ""
    return Path(folder) / "litellm_core_utils" / "tokenizers"


def encoding_of(name: str) -> "Encoding":
    """An encoding by its name, from the files that come with LiteLLM."""
    from tiktoken import get_encoding

    # tiktoken would otherwise download the file on first use.
    os.environ["TIKTOKEN_CACHE_DIR"] = str(_bundled_files())
    return get_encoding(name)
