"""Message ids and threads of the items of a recall."""

from collections.abc import Collection, Sequence

import msgspec

from longmemeval.records import RecalledItem


def not_shown(found: Sequence[str], shown: Collection[str]) -> tuple[str, ...]:
    """Return the messages that were found but did not reach the model."""
    reached = set(shown)
    return tuple(message_id for message_id in dict.fromkeys(found) if message_id not in reached)


def threads_of(items: tuple[RecalledItem, ...]) -> tuple[str, ...]:
    """Return the threads of items, each once, in order."""
    return tuple(dict.fromkeys(thread_id for item in items for thread_id in item.thread_ids))


def message_ids_of(items: tuple[RecalledItem, ...]) -> tuple[str, ...]:
    """Return the ids of the messages that items repeat or were made from, in order."""
    return tuple(message_id for item in items for message_id in item.message_ids)


def note_item(messages: tuple[RecalledItem, ...], note: str) -> RecalledItem:
    """Return the item that replaces the messages of a session about which `note` was taken."""
    return msgspec.structs.replace(
        messages[0],
        text=note,
        message_ids=tuple(message_id for message in messages for message_id in message.message_ids),
        rank=None,
        score=None,
    )
