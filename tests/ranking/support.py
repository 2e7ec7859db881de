"""Small histories for tests of retrieval."""

from datetime import datetime

from longmemeval.records import Haystack, Role, Session, Turn
from longmemeval.storage.memory_store import MemoryStore

Line = tuple[str, str]
"""Speaker (`user`, `assistant`, or a name: the first name met is the user) and text."""


def history(*sessions: list[Line], first_day: int = 1) -> MemoryStore:
    """A store of sessions `s1`, `s2`, … on consecutive days of May 2023."""
    names = list(dict.fromkeys(speaker for session in sessions for speaker, _ in session))

    def turn(speaker: str, text: str) -> Turn:
        if speaker in ("user", "assistant"):
            role: Role = "user" if speaker == "user" else "assistant"
            return Turn(role, text)
        return Turn("user" if speaker == names[0] else "assistant", text, speaker)

    made = [
        Session(f"s{number}", datetime(2023, 5, first_day + number - 1, 9), "", tuple(turn(*line) for line in session))
        for number, session in enumerate(sessions, start=1)
    ]
    return MemoryStore.from_haystack(Haystack("h", tuple(made)))
