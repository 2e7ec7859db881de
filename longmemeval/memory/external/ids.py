"""Ids that tell nothing: what an external system gets instead of ours, and the way back.

Session ids of the benchmarks can say which sessions hold the evidence. Ids that go out are hashes of a scope
and a place in it, so they are the same for every system and every time, and differ from one history to the next.
"""

from collections.abc import Sequence

from longmemeval.core.files import sha256_text
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Message

_LENGTH = 16


class OpaqueIds:
    """The sessions and messages of one history.

    Args:
        haystack_id: of the history.
        messages: all of them, oldest first.
    """

    def __init__(self, haystack_id: str, messages: Sequence[Message]) -> None:
        threads = list(dict.fromkeys(message.thread_id for message in messages))
        self.sessions = {thread: _opaque("s", haystack_id, place) for place, thread in enumerate(threads)}
        """Thread ids to what goes out."""
        self.messages = {message.message_id: _opaque("m", haystack_id, place) for place, message in enumerate(messages)}
        """Message ids to what goes out."""
        self._back = {sent: own for mapping in (self.sessions, self.messages) for own, sent in mapping.items()}
        self._threads = {message.message_id: message.thread_id for message in messages}

    def own_messages(self, sent: Sequence[str]) -> tuple[str, ...]:
        """Our ids of messages.

        Raises:
            ServiceError: one was never sent.
        """
        return tuple(self._own(one, "m", "message") for one in sent)

    def own_sessions(self, sent: Sequence[str], message_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """The thread ids of sessions, and of the messages with our `message_ids`, each once.

        Raises:
            ServiceError: one was never sent.
        """
        named = [self._own(one, "s", "session") for one in sent]
        return tuple(dict.fromkeys([*(self._threads[one] for one in message_ids), *named]))

    def _own(self, sent: str, sign: str, what: str) -> str:
        own = self._back.get(sent) if sent.startswith(f"{sign}_") else None
        if own is None:
            raise ServiceError(
                f"The memory returned a {what} id that it was not given for this history: '{sent[:80]}'", code="garbage"
            )
        return own


def scope_id(*parts: str) -> str:
    """The name of a scope, from all that tells it from others."""
    return _opaque("h", *parts)


def _opaque(sign: str, *parts: object) -> str:
    return f"{sign}_{sha256_text(chr(0).join(map(str, parts)))[:_LENGTH]}"
