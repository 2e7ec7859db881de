"""The tokens of a haystack's messages, counted at prepare: the fixture part `tokens.json`.

A run whose prompts hold the whole history would otherwise spend most of its processor time on counting. Counted are the
encodings that models are counted by; which model will read is not known at prepare.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import FixtureError
from longmemeval.llm.tokens import ENCODINGS, Counted, TiktokenCounter, TokenCounter, counted_before, encoding_counter
from longmemeval.records import FixtureMeta, Message, PartInfo
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.format import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

_RECIPE: dict[str, Any] = {"version": 1, "encodings": list(ENCODINGS)}
"""To be raised when `TiktokenCounter` takes other ends of a text for its surroundings'."""
_NUMBER_BYTES = 4
"""In the file: a count has two or three digits, and a comma."""


class TokenCounts(Struct, frozen=True):
    """Of one encoding, message by message."""

    tokens: list[int]
    inner_tokens: list[int]
    """Of the part of a message whose tokens are the same in any surroundings; 0 where there is none."""


class _File(Struct, frozen=True):
    format: int
    encodings: dict[str, TokenCounts]


def encode_tokens(messages: Sequence[Message]) -> bytes:
    """The part for these messages, in their order."""
    counters = {name: encoding_counter(name) for name in ENCODINGS}
    counted = {name: [counter.counted(one.content) for one in messages] for name, counter in counters.items()}
    counts = {
        name: TokenCounts([one.tokens for one in ones], [one.inner_tokens for one in ones])
        for name, ones in counted.items()
    }
    return msgspec.json.encode(_File(FORMAT, counts))


class TokensPart(Part[dict[str, TokenCounts]]):
    """The tokens of all messages by each encoding; none where a fixture has not got them, or by other rules."""

    name = "tokens"
    derived = True

    def info(self, meta: FixtureMeta) -> PartInfo | None:
        """One by other rules is none."""
        info = super().info(meta)
        return info if info and info.recipe == _RECIPE else None

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """The encodings."""
        return _RECIPE

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """The tokens of the messages."""
        return PartOutput(encode_tokens(source.messages))

    def open(self, stored: Stored) -> dict[str, TokenCounts]:
        """The counts of each encoding.

        Raises:
            FixtureError: the part is damaged, or counts other messages than the fixture has.
        """
        if stored.info is None:
            return {}
        file = decode_versioned(stored.data(), _File, stored.where)
        messages = len(stored.part(MESSAGES).messages)
        for counts in file.encodings.values():
            if not len(counts.tokens) == len(counts.inner_tokens) == messages:
                raise FixtureError("The part has not one count for each message", where=stored.where, fix=REMAKE)
        return file.encodings

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Two counts for each message and encoding."""
        return 2 * _NUMBER_BYTES * len(ENCODINGS) * len(source.messages)


TOKENS = TokensPart()


def message_tokens(counter: TokenCounter, fixture: Fixture) -> Sequence[Counted] | None:
    """The tokens of all messages of `fixture`, in their order; None where `counter`'s encoding did not count them.

    Raises:
        FixtureError: the part is damaged.
    """
    if not isinstance(counter, TiktokenCounter):
        return None
    encoding = counter.encoding.name
    return fixture.kept(("tokens", encoding), lambda: _message_tokens(fixture, encoding))


def _message_tokens(fixture: Fixture, encoding: str) -> Sequence[Counted] | None:
    counts = fixture.part(TOKENS).get(encoding)
    if counts is None:
        return None
    texts = [message.content for message in fixture.memory.messages]
    return list(map(counted_before, texts, counts.tokens, counts.inner_tokens))
