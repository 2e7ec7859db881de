"""Rows of versions of facts: columns to search by, and the complete record."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from longmemeval.core.arrays import Vector
from longmemeval.errors import RecallError
from longmemeval.memory.engram.records import Fact

FOREVER = "9999-12-31T23:59:59.999999"
"""The text that stands for "still" in databases that compare texts."""


def text_of(moment: datetime) -> str:
    """Return a moment as a text that sorts chronologically."""
    return moment.isoformat(timespec="microseconds")


def plain(text: str) -> str:
    """Return a text without the zero characters that databases refuse."""
    return text.replace("\0", "")


def number_of(moment: datetime | None) -> int:
    """Return a moment as microseconds since 1970, for engines without dates; None: the last possible moment."""
    age = (moment or datetime.max) - datetime(1970, 1, 1)
    return (age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds


NEVER = number_of(None)


def moment_of(number: int) -> datetime | None:
    """Return the moment of a number, the inverse of `number_of`."""
    return None if number == NEVER else datetime(1970, 1, 1) + timedelta(microseconds=number)


def encoded(fact: Fact) -> str:
    """Return the record as JSON."""
    return msgspec.json.encode(fact).decode()


class DamagedRecordError(RecallError):
    """A stored record cannot be decoded as a fact."""


def decoded(record: str) -> Fact:
    """Return the fact of a record.

    Raises:
        DamagedRecordError: the record is invalid.
    """
    try:
        return msgspec.json.decode(record, type=Fact)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedRecordError(
            f"The store holds a damaged record of a fact: {error}",
            fix="Open the memory again, or rerun the command: the store is then refilled from the prepared facts",
        ) from error


def digest(fact: Fact, vector: Vector) -> str:
    """Return a hash by which to recognise exactly this version and vector in a store, apart from the expiry."""
    open_version = msgspec.structs.replace(fact, expired_at=None)
    return hashlib.sha256(msgspec.json.encode(open_version) + vector.astype("<f4").tobytes()).hexdigest()[:32]


def in_batches(rows: Sequence[dict[str, Any]], size: int = 1000) -> list[list[dict[str, Any]]]:
    """Split rows into batches of at most `size`."""
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]
