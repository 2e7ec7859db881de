"""A version of a fact as a database has it: columns to search by, and the record itself, word for word."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from longmemeval.core.arrays import Vector
from longmemeval.errors import RecallError
from longmemeval.memory.engram.records import Fact

FOREVER = "9999-12-31T23:59:59.999999"
"""What stands for "still" where a database compares texts."""


def text_of(moment: datetime) -> str:
    """A moment as a text that sorts as moments do."""
    return moment.isoformat(timespec="microseconds")


def plain(text: str) -> str:
    """A text without the zero characters that databases refuse."""
    return text.replace("\0", "")


def number_of(moment: datetime | None) -> int:
    """A moment as microseconds since 1970, by which engines without dates filter; None: the last there is."""
    age = (moment or datetime.max) - datetime(1970, 1, 1)
    return (age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds


NEVER = number_of(None)


def moment_of(number: int) -> datetime | None:
    """The moment again."""
    return None if number == NEVER else datetime(1970, 1, 1) + timedelta(microseconds=number)


def encoded(fact: Fact) -> str:
    """The record as JSON."""
    return msgspec.json.encode(fact).decode()


class DamagedRecordError(RecallError):
    """A store holds something that is no record of a fact."""


def decoded(record: str) -> Fact:
    """Return the record again.

    Raises:
        DamagedRecordError: it is none.
    """
    try:
        return msgspec.json.decode(record, type=Fact)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedRecordError(
            f"The store holds a damaged record of a fact: {error}",
            fix="Open the memory again, or rerun the command: the store is then filled anew from what was prepared",
        ) from error


def digest(fact: Fact, vector: Vector) -> str:
    """What tells whether a store holds this version, and its vector, as they are; its expiry apart."""
    open_version = msgspec.structs.replace(fact, expired_at=None)
    return hashlib.sha256(msgspec.json.encode(open_version) + vector.astype("<f4").tobytes()).hexdigest()[:32]


def in_batches(rows: Sequence[dict[str, Any]], size: int = 1000) -> list[list[dict[str, Any]]]:
    """The rows, so many at a time."""
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]
