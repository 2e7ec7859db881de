"""Opaque ids that are sent to external systems instead of ours, and their translation back.

Session ids of the benchmarks can reveal which sessions contain the evidence. The ids we send are hashes of a scope and
a position in it, so they are the same for every system and every time, and differ between histories.
"""

from collections.abc import Sequence

from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Message
from longmemeval.storage.opaque import opaque_id


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
                f"The memory returned a {what} id that it was not given for this history: '{sent[:80]}'", code="garbage"
            )
        return own


def scope_id(*parts: str) -> str:
    """Return the name of a scope, a hash of everything that distinguishes it."""
    return opaque_id("h", *parts)
