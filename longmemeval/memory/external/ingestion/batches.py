"""Split a history into the batches that a memory service gets: sessions, pairs of messages or single messages."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from longmemeval.memory.external.ids import OpaqueIds
from longmemeval.memory.external.messages import Add, SentMessage, SentSession
from longmemeval.records import Message

Unit = Literal["session", "pair", "turn"]


def batches(scope: str, messages: Sequence[Message], ids: OpaqueIds, unit: Unit) -> Iterator[Add]:
    """Yield all messages in time order, in batches that never span two sessions.

    The id of a batch is that of the session, followed by its number there if the unit is smaller.

    Args:
        scope: the scope to add to.
        messages: the whole history, oldest first.
        ids: the ids of this history.
        unit: the contents of one batch; a pair is a user's message with the messages up to the user's next one.
    """
    for thread_id, group in groupby(messages, key=lambda message: message.thread_id):
        session_id = ids.sessions[thread_id]
        for number, part in enumerate(_parts(list(group), unit)):
            sent = tuple(
                SentMessage(ids.messages[message.message_id], message.role, message.speaker, message.content)
                for message in part
            )
            batch_id = session_id if unit == "session" else f"{session_id}.{number}"
            yield Add(scope, batch_id, SentSession(session_id, part[0].created_at, sent))


def _parts(session: list[Message], unit: Unit) -> list[list[Message]]:
    if unit == "session":
        return [session]
    parts: list[list[Message]] = []
    for message in session:
        if parts and unit == "pair" and message.role != "user":
            parts[-1].append(message)
        else:
            parts.append([message])
    return parts
