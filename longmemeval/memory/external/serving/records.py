"""The records that a class receives, and the exception by which it fails."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Message:
    """One message of a session."""

    id: str
    role: str
    """`user` or `assistant`."""
    speaker: str
    """The speaker's name; empty if the data has none."""
    content: str


@dataclass(frozen=True)
class Session:
    """The session, or part of one, that `add` receives."""

    id: str
    date: datetime
    """The date, without a time zone."""
    messages: tuple[Message, ...]


class Fault(Exception):
    """A method fails with this code and message."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.retryable = code, retryable
