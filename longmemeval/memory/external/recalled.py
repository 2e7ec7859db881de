"""The items that a memory service found, translated back to our ids."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from longmemeval.memory.external.messages import SearchItem
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Message, Provenance, RecalledItem
from longmemeval.storage.opaque import opaque_id

# Opaque ids that are sent to external systems instead of ours, and their translation back.
#
# Session ids of the benchmarks can reveal which sessions contain the evidence. The ids we send are hashes of a scope
# and a position in it, so they are the same for every system and every time, and differ between histories.


class OpaqueIds:
    """The ids of the sessions and messages of one history.

    Args:
        haystack_id: the history's id.
        messages: all messages, oldest first.
    """

    def __init__(self, haystack_id: str, messages: Sequence[Message]) -> None:
        threads = list(dict.fromkeys(message.thread_id for message in messages))
        self.sessions = {thread: opaque_id("s", haystack_id, place) for place, thread in enumerate(threads)}
        """The ids to send, by thread id."""
        self.messages = {
            message.message_id: opaque_id("m", haystack_id, place) for place, message in enumerate(messages)
        }
        """The ids to send, by message id."""
        self._back = {sent: own for mapping in (self.sessions, self.messages) for own, sent in mapping.items()}
        self._threads = {message.message_id: message.thread_id for message in messages}

    def own_messages(self, sent: Sequence[str]) -> tuple[str, ...]:
        """Return our ids of messages.

        Raises:
            ServiceError: an id was never sent.
        """
        return tuple(self._own(message_id, "m", "message") for message_id in sent)

    def own_sessions(self, sent: Sequence[str], message_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the thread ids of sessions, and of the messages with our `message_ids`, each once.

        Raises:
            ServiceError: an id was never sent.
        """
        named = [self._own(session_id, "s", "session") for session_id in sent]
        return tuple(dict.fromkeys([*(self._threads[message_id] for message_id in message_ids), *named]))

    def _own(self, sent: str, sign: str, what: str) -> str:
        own = self._back.get(sent) if sent.startswith(f"{sign}_") else None
        if own is None:
            raise ServiceError(
                f"The memory returned a {what} id that it was not given for this history: '{sent[:80]}'",
                fix=f"Return the ids of the {what}s that add received for it",
                code="garbage",
            )
        return own


def scope_id(*parts: str) -> str:
    """Return the name of a scope, a hash of everything that distinguishes it."""
    return opaque_id("h", *parts)


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
