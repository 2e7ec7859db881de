"""From stored messages to recalled items."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from longmemeval.records import Message, RecalledItem
from longmemeval.storage.memory_store import MemoryStore


class Hit(NamedTuple):
    """The rank and score of a message in the ranking that recalled it."""

    rank: int
    score: float


def message_item(message: Message, hit: Hit | None = None) -> RecalledItem:
    """Return an item that repeats `message` word for word."""
    return RecalledItem(
        kind="message",
        text=message.content,
        date=message.created_at,
        speaker=message.speaker or message.role,
        message_ids=(message.message_id,),
        thread_ids=(message.thread_id,),
        rank=hit.rank if hit else None,
        score=hit.score if hit else None,
    )


def items_at(store: MemoryStore, positions: Iterable[int], hits: Mapping[int, Hit]) -> list[RecalledItem]:
    """Return items for the messages at `positions` of the resource's history, each once, in time order.

    Args:
        store: the resource's messages, oldest first.
        positions: indices into `store.messages`; duplicates are merged.
        hits: rank and score of the positions that were ranked.
    """
    return [message_item(store.messages[position], hits.get(position)) for position in sorted(set(positions))]


def last_positions(store: MemoryStore, count: int) -> range:
    """Return the positions of the newest `count` messages of the whole resource, across threads."""
    total = len(store.messages)
    return range(max(0, total - count), total)


def with_neighbours(store: MemoryStore, positions: Iterable[int], message_range: int) -> set[int]:
    """Return `positions` and up to `message_range` messages before and after each within its thread."""
    widened: set[int] = set()
    for position in positions:
        thread = store.messages[position].thread_id
        low, high = max(0, position - message_range), min(len(store.messages), position + message_range + 1)
        widened.update(near for near in range(low, high) if store.messages[near].thread_id == thread)
    return widened
