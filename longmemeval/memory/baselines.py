"""The baselines: no memory, the evidence sessions (oracle) and the whole history."""

from collections.abc import Callable, Collection, Sequence

from longmemeval.core.event_loop import in_thread
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.items import message_item
from longmemeval.memory.token_counts import message_tokens
from longmemeval.records import Gold, Question, Recall
from longmemeval.storage.fixture import Fixture


class NoMemory:
    """`none`: the question only."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return an empty recall."""
        return Recall(items=())


class FullHistory:
    """`full-history`: every message of the haystack, nothing cut here."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return all messages, oldest first."""
        return await in_thread(_all_messages, fixture)

    def known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        """Return the token counts of the messages, as counted at prepare."""
        return message_tokens(counter, fixture)


class Oracle:
    """`oracle`: the evidence sessions only; the only preset that reads gold.

    Args:
        gold: maps a question id to its gold record.
    """

    def __init__(self, gold: Callable[[str], Gold]) -> None:
        self._gold = gold

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return all messages of the evidence sessions, oldest first."""
        return await in_thread(_messages, fixture, set(self._gold(question.question_id).evidence_sessions))


def _all_messages(fixture: Fixture) -> Recall:
    """Return all messages, oldest first; the same items for every question of a haystack."""
    return Recall(fixture.cached(("items",), lambda: tuple(map(message_item, fixture.memory.messages))))


def _messages(fixture: Fixture, threads: Collection[str]) -> Recall:
    """Return the messages of the given threads, oldest first."""
    return Recall(tuple(message_item(message) for message in fixture.memory.messages if message.thread_id in threads))
