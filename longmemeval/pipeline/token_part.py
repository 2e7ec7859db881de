"""The tokens of a haystack's messages, counted at prepare: the fixture part `tokens.json`.

A run whose prompts hold the whole history would otherwise spend most of its processor time on counting. Counted are the
encodings that models are counted by; which model will read is not known at prepare.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.errors import FixtureError
from longmemeval.llm.tokens import ENCODINGS, TOKENS_PART, TiktokenCounter, TokenCounter, encoding_counter
from longmemeval.records import Message
from longmemeval.storage.fixture import Fixture, part_file
from longmemeval.storage.format import FORMAT, REMAKE, decode_versioned

TOKENS_RECIPE: dict[str, Any] = {"version": 1, "encodings": list(ENCODINGS)}
"""To be raised when `TiktokenCounter` takes other ends of a text for its surroundings'."""


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
    texts = [message.content for message in messages]
    counts = {name: TokenCounts(*encoding_counter(name).counts_of(texts)) for name in ENCODINGS}
    return msgspec.json.encode(_File(FORMAT, counts))


def learn_tokens(counter: TokenCounter, fixture: Fixture) -> None:
    """Let `counter` know the messages of `fixture`, where it has been counted for its encoding.

    Raises:
        FixtureError: the part is damaged.
    """
    if TOKENS_PART in fixture.meta.parts and isinstance(counter, TiktokenCounter):
        fixture.kept((TOKENS_PART, counter.name), lambda: _learn(counter, fixture))


def tokens_of(fixture: Fixture) -> dict[str, TokenCounts]:
    """The counts of each encoding that the part holds.

    Raises:
        FixtureError: the part is damaged, or counts other messages than the fixture has.
    """
    where = str(fixture.path / part_file(TOKENS_PART))
    file = decode_versioned(fixture.read_part(TOKENS_PART), _File, where)
    for counts in file.encodings.values():
        if not len(counts.tokens) == len(counts.inner_tokens) == len(fixture.memory.messages):
            raise FixtureError("The part has not one count for each message", where=where, fix=REMAKE)
    return file.encodings


def _learn(counter: TiktokenCounter, fixture: Fixture) -> bool:
    counts = tokens_of(fixture).get(counter.encoding.name)
    if counts:
        texts = [message.content for message in fixture.memory.messages]
        counter.remember(texts, counts.tokens, counts.inner_tokens)
    return counts is not None
