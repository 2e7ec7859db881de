"""Summarise each session in one line, by rules, from facts."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from longmemeval.memory.engram.records import Fact
from longmemeval.memory.working_memory.statements import statements
from longmemeval.records import Message

_MOST_FACTS = 4
_MOST_WORDS = 25


class Summary(Struct, frozen=True):
    """A line on what a session was about."""

    thread_id: str
    text: str
    message_ids: tuple[str, ...]
    """The messages it was made from."""


def summaries(messages: Sequence[Message], facts: Iterable[Fact]) -> list[Summary]:
    """Summarise each session by the facts first said in it, else by its first statement; skip it if it has neither."""
    first_said: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.version_id.endswith(".1"):
            first_said.setdefault(fact.episode_ids[-1].rpartition(":")[0], []).append(fact)
    by_thread: dict[str, list[Message]] = {}
    for message in messages:
        by_thread.setdefault(message.thread_id, []).append(message)
    found = []
    for thread_id, thread in by_thread.items():
        chosen = first_said.get(thread_id, [])[:_MOST_FACTS]
        if chosen:
            ids = tuple(dict.fromkeys(episode for fact in chosen for episode in fact.episode_ids))
            found.append(Summary(thread_id, "; ".join(fact.text for fact in chosen), ids))
        elif first := _first_statement(thread):
            found.append(first)
    return found


def _first_statement(thread: Sequence[Message]) -> Summary | None:
    for message in thread:
        for statement in statements(message.content) if message.role == "user" else ():
            text = " ".join(statement.split()[:_MOST_WORDS])
            return Summary(message.thread_id, f"{message.speaker or message.role}: {text}", (message.message_id,))
    return None
