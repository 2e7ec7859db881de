"""The messages of one resource in memory, and their file `db.json`."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from longmemeval.errors import FixtureError, HarnessError
from longmemeval.records import Haystack, Message
from longmemeval.storage.messages import haystack_messages, resource_id, thread_ids
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned


class Resource(Struct, frozen=True):
    """Owner of a history."""

    id: str
    working_memory: None = None
    """Always None: the document is the part `working-memory`."""


class Thread(Struct, frozen=True, gc=False):
    """One stored session."""

    id: str
    resource_id: str
    created_at: datetime
    updated_at: datetime


class _Database(Struct, frozen=True):
    """`db.json` as stored on disk."""

    format: int
    resource: Resource
    threads: list[Thread]
    messages: list[Message]


class MemoryStore:
    """Threads and messages of one resource; everything keeps the order in which it was added.

    Args:
        resource_id: the resource all threads belong to.
    """

    def __init__(self, resource_id: str) -> None:
        self.messages: list[Message] = []
        """All messages of the resource, oldest first. Read only; add with `add_messages`."""
        self.positions: dict[str, int] = {}
        """Position in `messages` by message id."""
        self.resource = Resource(resource_id)
        self._threads: dict[str, Thread] = {}
        self._by_thread: dict[str, list[Message]] = {}

    @classmethod
    def from_haystack(cls, haystack: Haystack) -> "MemoryStore":
        """Create a store with a whole haystack, oldest session first."""
        store = cls(resource_id(haystack.haystack_id))
        for thread_id, session in zip(thread_ids(haystack), haystack.sessions, strict=True):
            store.add_thread(Thread(thread_id, store.resource.id, session.date, session.date))
        store.add_messages(haystack_messages(haystack))
        return store

    @property
    def threads(self) -> list[Thread]:
        """All threads, oldest first."""
        return list(self._threads.values())

    def messages_of(self, thread_id: str) -> list[Message]:
        """Return the messages of a thread in order; none if it is not stored (the question's own thread, say)."""
        return list(self._by_thread.get(thread_id, ()))

    def message(self, message_id: str) -> Message:
        """Return a message by its id.

        Raises:
            HarnessError: no such message is stored.
        """
        try:
            return self.messages[self.positions[message_id]]
        except KeyError:
            raise HarnessError(f"No message {message_id!r} is stored", where=self.resource.id) from None

    def add_thread(self, thread: Thread) -> None:
        """Add an empty thread.

        Raises:
            HarnessError: the thread is already stored or belongs to another resource.
        """
        if thread.id in self._threads:
            raise HarnessError(f"Thread {thread.id!r} is stored twice", where=self.resource.id)
        if thread.resource_id != self.resource.id:
            raise HarnessError(f"Thread {thread.id!r} belongs to {thread.resource_id!r}", where=self.resource.id)
        self._threads[thread.id] = thread
        self._by_thread[thread.id] = []

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages.

        Raises:
            HarnessError: a message id is already stored, or its thread is not.
        """
        for message in messages:
            if message.message_id in self.positions:
                raise HarnessError(f"Message {message.message_id!r} is stored twice", where=self.resource.id)
            if message.thread_id not in self._threads:
                raise HarnessError(
                    f"Message {message.message_id!r} belongs to thread {message.thread_id!r}, which is not stored",
                    where=self.resource.id,
                )
            self.positions[message.message_id] = len(self.messages)
            self.messages.append(message)
            self._by_thread[message.thread_id].append(message)

    def persist(self) -> bytes:
        """Return the store as `db.json`: indented, the same bytes for the same content."""
        database = _Database(FORMAT, self.resource, self.threads, self.messages)
        return msgspec.json.format(msgspec.json.encode(database), indent=2) + b"\n"

    @classmethod
    def hydrate(cls, data: bytes, where: str) -> "MemoryStore":
        """Load the store that `persist` wrote.

        Args:
            data: the bytes of `db.json`.
            where: the file, for errors.

        Raises:
            FixtureError: newer format, not a `db.json`, or one that contradicts itself.
        """
        database = decode_versioned(data, _Database, where)
        store = cls(database.resource.id)
        try:
            for thread in database.threads:
                store.add_thread(thread)
            store.add_messages(database.messages)
        except HarnessError as error:
            raise FixtureError(error.what, where=where, fix=REMAKE) from error
        return store


def entry_store(entries: Sequence[tuple[str, datetime, str]]) -> MemoryStore:
    """Return what a memory made of messages in the form of messages, so that the ranking of messages ranks it.

    Args:
        entries: thread, time and text of each.
    """
    store = MemoryStore("entries")
    for thread_id, said_at in dict.fromkeys((thread_id, said_at) for thread_id, said_at, _ in entries):
        store.add_thread(Thread(thread_id, "entries", said_at, said_at))
    store.add_messages(
        Message(f"entry:{number}", thread_id, "user", "", text, said_at, number)
        for number, (thread_id, said_at, text) in enumerate(entries)
    )
    return store
