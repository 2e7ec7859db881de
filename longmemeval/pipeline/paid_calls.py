"""Every paid call of a preparation ends in its journal, however the command ended that made it."""

import secrets
from pathlib import Path

from longmemeval.pipeline.build import EMBEDDINGS, REPLIES, PrepareRecord
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.manifest import now
from longmemeval.receipts import stored_receipts
from longmemeval.records import Usage
from longmemeval.sqlite_cache import SqliteCache


def start_session(journal: Journal[PrepareRecord]) -> str:
    """Begin a command that may have to pay; the name under which its receipts are found again."""
    session = secrets.token_hex(8)
    journal.append(PrepareRecord("started", now(), session=session))
    return session


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
