"""Costs of paid calls, stored with the results until a journal records them, in case the process is killed."""

import msgspec

from longmemeval.core.caches import SqliteCache
from longmemeval.records import Usage

EMBEDDINGS, REPLIES = "embeddings.sqlite", "replies.sqlite"
"""Files of the caches, which also hold receipts."""


class Receipts:
    """The receipts of one piece of work, each stored in the same transaction as the result it paid for.

    Args:
        session: id of the command that makes the calls, by which its receipts are found again.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self._numbers: dict[str, list[int]] = {}

    def of(self, cache: str) -> tuple[int, ...]:
        """Return the numbers of the receipts written so far to the cache of that file name, for the journal."""
        return tuple(self._numbers.get(cache, ()))

    def store(self, cache: SqliteCache, values: dict[bytes, bytes], usage: Usage) -> None:
        """Store `values` in `cache` together with their cost.

        Raises:
            HarnessError: the cache cannot be written.
        """
        number = cache.put_many(values, receipt=(self.session, msgspec.json.encode(usage)))
        self._numbers.setdefault(cache.path.name, []).append(number)


def stored_receipts(cache: SqliteCache, sessions: set[str]) -> dict[int, Usage]:
    """Return the cost of the calls of `sessions` by receipt number, except for receipts that were dropped.

    Raises:
        HarnessError: the cache cannot be read.
    """
    stored = cache.receipts()
    return {
        number: msgspec.json.decode(content, type=Usage)
        for number, (session, content) in stored.items()
        if session in sessions
    }
