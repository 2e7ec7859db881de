"""Find a memory's limits that are at least as large as a history, so that they leave nothing out."""

from collections.abc import Mapping
from typing import Any

from longmemeval.llm.tokens import TokenCounter
from longmemeval.records import Recall
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore

_MESSAGE_LIMITS = ("top_k", "last_messages")
_TOKEN_LIMIT = "budget"
_LONGEST_TOKEN = 8
"""More characters per token than any history has on average: texts longer than this times the budget exceed it."""
_WHOLE = "recall"
"""Recorded if all of the history was recalled, whatever the limits."""


def non_binding_limits(
    parameters: Mapping[str, Any], recall: Recall, fixture: Fixture, counter: TokenCounter
) -> tuple[str, ...]:
    """Return the parameters that are at least as large as a history; `recall` too if all of it was recalled.

    Args:
        parameters: of the memory; `top_k` and `last_messages` are compared with the number of messages, `budget` with
            their tokens.
        fixture: the history; nothing is returned if its messages were not prepared.
        counter: the run's.
    """
    limits = {name: limit for name in (*_MESSAGE_LIMITS, _TOKEN_LIMIT) if (limit := _number(parameters, name))}
    recalled = {message_id for item in recall.items for message_id in item.message_ids}
    if not (limits or recalled) or not fixture.has_messages:
        return ()
    store = fixture.memory
    found = fixture.cached(("loose limits", *limits.items(), counter.name), lambda: _at_size(limits, store, counter))
    return (*found, _WHOLE) if recalled >= store.positions.keys() > set() else found


def _at_size(limits: Mapping[str, int], store: MemoryStore, counter: TokenCounter) -> tuple[str, ...]:
    if _TOKEN_LIMIT in limits and not _within(store, limits[_TOKEN_LIMIT], counter):
        return ()  # The budget binds, however many messages are let through.
    found = [name for name in _MESSAGE_LIMITS if limits.get(name, 0) >= len(store.messages) > 0]
    return (*found, _TOKEN_LIMIT) if _TOKEN_LIMIT in limits else tuple(found)


def _within(store: MemoryStore, budget: int, counter: TokenCounter) -> bool:
    texts = [message.content for message in store.messages]
    if not texts or sum(map(len, texts)) > _LONGEST_TOKEN * budget:
        return False
    left = budget
    for text in texts:
        left -= counter.count(text)
        if left < 0:
            return False
    return True


def _number(parameters: Mapping[str, Any], name: str) -> int | None:
    value = parameters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
