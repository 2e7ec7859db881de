"""Costs of paid calls, stored with their results until a journal has them: the process may be killed in between."""

import msgspec

from longmemeval.core.caches.sqlite import SqliteCache
from longmemeval.records import Usage

EMBEDDINGS, REPLIES = "embeddings.sqlite", "replies.sqlite"
"""Files of the caches, which hold receipts too."""


class Receipts:
    """The receipts of one piece of work. Each is stored in the same transaction as the result it paid for.

    Args:
        session: the command that makes the calls; receipts are found again by it.
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
    """Return the cost of the calls of `sessions` by receipt number, if the receipts were not dropped.

    Raises:
        HarnessError: the cache cannot be read.
    """
    found = cache.receipts()
    return {
        number: msgspec.json.decode(content, type=Usage)
        for number, (session, content) in found.items()
        if session in sessions
    }
