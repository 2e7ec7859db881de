"""The items that a memory service found, translated back to our ids."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from longmemeval.memory.external.ids import OpaqueIds
from longmemeval.memory.external.messages import SearchItem
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Provenance, RecalledItem


def recalled_items(
    found: Sequence[SearchItem], ids: OpaqueIds, refs: Mapping[str, Sequence[str]]
) -> tuple[RecalledItem, ...]:
    """Return the items, best first.

    Args:
        found: as the service returned them.
        ids: the ids of the history that was searched.
        refs: opaque ids of messages by the names that the service gave at ingestion.

    Raises:
        ServiceError: an id was never sent to the service, a ref never came from it, or a date has a time zone.
    """
    return tuple(_item(rank, item, ids, refs) for rank, item in enumerate(found, start=1))


def provenance_of(items: Sequence[RecalledItem]) -> Provenance | None:
    """Return the finest level on which every item names its source; None if there are no items."""
    if not items:
        return None
    if all(item.message_ids for item in items):
        return "message"
    return "session" if all(item.thread_ids for item in items) else "none"


def _item(rank: int, item: SearchItem, ids: OpaqueIds, refs: Mapping[str, Sequence[str]]) -> RecalledItem:
    sent: Sequence[str] = item.message_ids
    if item.ref and not sent:
        if item.ref not in refs:
            raise ServiceError(f"The memory returned a ref that it never gave: '{item.ref[:80]}'", code="garbage")
        sent = refs[item.ref]
    messages = ids.own_messages(sent)
    return RecalledItem(
        kind=item.kind,
        text=item.text,
        date=_naive(item.date),
        speaker=item.speaker,
        message_ids=messages,
        thread_ids=ids.own_sessions(item.session_ids, messages),
        rank=rank,
        score=item.score,
    )


def _naive(date: datetime | None) -> datetime | None:
    """Remove the zone of a date in UTC, which services may take our dates for; another zone would be a guess."""
    if date is None or date.tzinfo is None:
        return date
    if date.utcoffset() != timedelta(0):
        raise ServiceError(
            f"The memory returned a date with a time zone: {date.isoformat()}",
            fix="Return dates as they were given, without a zone",
            code="garbage",
        )
    return date.replace(tzinfo=None)
