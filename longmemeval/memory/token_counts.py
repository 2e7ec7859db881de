"""The tokens of a haystack's messages, counted at prepare: the fixture part `tokens.json`.

If prompts contain the whole history, counting tokens would otherwise take most of a run's processor time. Tokens are
counted in every encoding that models use, because the answering model is not known at prepare.
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
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

_RECIPE: dict[str, Any] = {"version": 1, "encodings": list(ENCODINGS)}
"""Increase the version when `TiktokenCounter` changes which ends of a text depend on its surroundings."""
_NUMBER_BYTES = 4
"""Bytes of a count in the file: two or three digits and a comma."""


class TokenCounts(Struct, frozen=True):
    """The token counts of all messages in one encoding."""

    tokens: list[int]
    inner_tokens: list[int]
    """Tokens of the part of each message that is counted the same in any surroundings; 0 if there is no such part."""


class _File(Struct, frozen=True):
    format: int
    encodings: dict[str, TokenCounts]


def encode_tokens(messages: Sequence[Message]) -> bytes:
    """Return the part file for these messages, in their order."""
    counters = {name: encoding_counter(name) for name in ENCODINGS}
    counted = {name: [counter.counted(message.content) for message in messages] for name, counter in counters.items()}
    encodings = {
        name: TokenCounts([count.tokens for count in counts], [count.inner_tokens for count in counts])
        for name, counts in counted.items()
    }
    return msgspec.json.encode(_File(FORMAT, encodings))


class TokensPart(Part[dict[str, TokenCounts]]):
    """The tokens of all messages in each encoding; empty if the part is missing or was made by another recipe."""

    name = "tokens"
    derived = True

    def info(self, meta: FixtureMeta) -> PartInfo | None:
        """Return the record of the part, or None if it was made by another recipe."""
        info = super().info(meta)
        return info if info and info.recipe == _RECIPE else None

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the version and the encodings."""
        return _RECIPE

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Count the tokens of the messages."""
        return PartOutput(encode_tokens(source.messages))

    def open(self, stored: Stored) -> dict[str, TokenCounts]:
        """Return the counts of each encoding.

        Raises:
            FixtureError: the part is damaged, or its counts do not match the fixture's messages.
        """
        if stored.info is None:
            return {}
        file = decode_versioned(stored.data(), _File, stored.where)
        messages = len(stored.part(MESSAGES).messages)
        for counts in file.encodings.values():
            if not len(counts.tokens) == len(counts.inner_tokens) == messages:
                raise FixtureError("The part does not have one count for each message", where=stored.where, fix=REMAKE)
        return file.encodings

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate the bytes: two counts for each message and encoding."""
        return 2 * _NUMBER_BYTES * len(ENCODINGS) * len(source.messages)


TOKENS = TokensPart()


def message_tokens(counter: TokenCounter, fixture: Fixture) -> Sequence[Counted] | None:
    """Return the tokens of all messages of `fixture`, in order; None if `counter`'s encoding was not counted.

    Raises:
        FixtureError: the part is damaged.
    """
    if not isinstance(counter, TiktokenCounter):
        return None
    encoding = counter.encoding_name
    return fixture.cached(("tokens", encoding), lambda: _message_tokens(fixture, encoding))


def _message_tokens(fixture: Fixture, encoding: str) -> Sequence[Counted] | None:
    counts = fixture.part(TOKENS).get(encoding)
    if counts is None:
        return None
    texts = [message.content for message in fixture.memory.messages]
    return list(map(counted_before, texts, counts.tokens, counts.inner_tokens))
