"""What paid calls cost, kept with their results until a journal has it: a process may be killed between the two."""

import msgspec

from longmemeval.core.caches.sqlite import SqliteCache
from longmemeval.records import Usage


class Receipts:
    """The receipts of one piece of work. Each is stored in the same transaction as what was paid for.

    Args:
        session: the command on whose behalf calls are made; finds them again.

    Attributes:
        numbers: those written so far, for the journal.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.numbers: list[int] = []

    def store(self, cache: SqliteCache, values: dict[bytes, bytes], usage: Usage) -> None:
        """Put `values` into `cache` with what they cost.

        Raises:
            HarnessError: the cache cannot be written.
        """
        number = cache.put_many(values, receipt=(self.session, msgspec.json.encode(usage)))
        self.numbers.append(number)


def stored_receipts(cache: SqliteCache, sessions: set[str]) -> dict[int, Usage]:
    """What the calls of `sessions` cost, by number, as far as receipts have not been dropped.

    Raises:
        HarnessError: the cache cannot be read.
    """
    found = cache.receipts()
    return {
        number: msgspec.json.decode(content, type=Usage)
        for number, (session, content) in found.items()
        if session in sessions
    }
