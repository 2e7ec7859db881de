"""Every paid call of a preparation ends in its journal, however the command ended that made it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import EMBEDDINGS, REPLIES, PrepareRecord
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.manifest import now
from longmemeval.receipts import stored_receipts
from longmemeval.records import Usage
from longmemeval.sqlite_cache import SqliteCache


@contextmanager
def paid_session(journal: Journal[PrepareRecord], cache_dir: Path, *, pays: bool) -> Iterator[str]:
    """The name under which the receipts of a command are found again; empty for one that `pays` nothing.

    What is paid for work that is not finished, because of an error or an interrupt, is in the journal at the end.
    """
    if not pays:
        yield ""
        return
    session = secrets.token_hex(8)
    journal.append(PrepareRecord("started", now(), session=session))
    try:
        yield session
    except BaseException:
        # The next command tries again.
        with suppress(HarnessError):
            settle(journal, cache_dir)
        raise
    settle(journal, cache_dir)


def settle(journal: Journal[PrepareRecord], cache_dir: Path) -> Usage:
    """Write into the journal what was paid for and is not there yet, and drop the receipts that are.

    Args:
        journal: of the preparation, held by this process.
        cache_dir: where the caches are.

    Returns:
        What was missing.

    Raises:
        HarnessError: the journal or a cache cannot be read or written.
    """
    records = journal.records()
    sessions = {record.session for record in records if record.session}
    missing = Usage()
    for name in (EMBEDDINGS, REPLIES) if sessions else ():
        if not (cache_dir / name).exists():
            continue
        cache = SqliteCache(cache_dir / name)
        stored = stored_receipts(cache, sessions)
        known = {number for record in records if record.cache == name for number in record.receipts}
        left = {number: usage for number, usage in stored.items() if number not in known}
        if left:
            usage = sum(left.values(), Usage())
            journal.append(PrepareRecord("unfinished", now(), usage=usage, cache=name, receipts=tuple(left)))
            missing += usage
        cache.drop_receipts(stored)
        cache.close()
    return missing
