"""Build the working-memory document of a haystack."""

from typing import Any, Protocol

from msgspec import Struct

from longmemeval.records import Haystack, Session, Usage


class WorkingMemoryUpdate(Struct, frozen=True):
    """A document after an update, the cost of the update, and notes on what could not be done."""

    document: str
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class WorkingMemoryUpdater(Protocol):
    """Adds what sessions say about the user to a document."""

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that can change the document: name, version, hashes of template and prompts, model, parameters."""
        ...

    def update(self, document: str, *sessions: Session) -> WorkingMemoryUpdate:
        """Add `sessions` to `document` one after the other, with the same result as in several calls.

        Args:
            document: markdown as returned by an earlier update; empty to begin with the updater's template.
            sessions: oldest first, and no older than those already in the document.

        Returns:
            The document (empty for no document and no sessions), the sum of all usage, and all notes in order.

        Raises:
            ModelError: a model call failed permanently.
            FatalModelError: no model call can succeed.
        """
        ...


def build_working_memory(haystack: Haystack, updater: WorkingMemoryUpdater) -> WorkingMemoryUpdate:
    """Add all sessions of `haystack` to one document, oldest first."""
    return updater.update("", *sorted(haystack.sessions, key=lambda session: session.date))
