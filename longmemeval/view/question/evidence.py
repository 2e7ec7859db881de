"""The labelled evidence of a question: read after recalling, to mark what was found."""

from collections.abc import Iterable

from msgspec import Struct

from longmemeval.results.run_questions import RunQuestions


class Evidence(Struct, frozen=True):
    """The labelled messages; if only sessions are labelled, all of their messages count."""

    turns: frozenset[str]
    sessions: frozenset[str]
    answer: str = ""
    """The right answer."""

    def holds(self, message_id: str) -> bool:
        """Return True if a message is evidence."""
        return message_id in self.turns if self.turns else self.session_of(message_id) in self.sessions

    @property
    def is_labelled(self) -> bool:
        """True if the data label any evidence."""
        return bool(self.turns or self.sessions)

    def found_in(self, message_ids: Iterable[str]) -> tuple[int, int]:
        """Return how many pieces of evidence are among the messages, and how many there are in all.

        Pieces are messages, or sessions if only these are labelled.
        """
        if self.turns:
            return len(self.turns & set(message_ids)), len(self.turns)
        return len(self.sessions & {self.session_of(message_id) for message_id in message_ids}), len(self.sessions)

    @staticmethod
    def session_of(message_id: str) -> str:
        """Return the session of a message."""
        return message_id.rpartition(":")[0]


def evidence_of(asked: RunQuestions, question_id: str) -> Evidence:
    """Return the evidence of a question."""
    right = asked.gold(question_id)
    return Evidence(frozenset(right.evidence_turns), frozenset(right.evidence_sessions), right.answer_text)
