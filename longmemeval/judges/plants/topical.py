"""A sentence of the haystack on a question's topic that does not answer it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from longmemeval.core.text.words import content_words
from longmemeval.judges.plants.forms import numbers_in
from longmemeval.records import Gold, Haystack, Question

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FEWEST, _MOST = 5, 40
"""Minimum and maximum words of such a sentence."""
_SHARED = 2
"""Minimum number of content words that it shares with the question."""


class Statement(NamedTuple):
    """A statement of a haystack."""

    sentence: str
    words: frozenset[str]
    """The content words of the statement."""
    session_id: str
    turn_id: str
    around: frozenset[str]
    """Ids of its turn and of the neighbouring turns."""


def statements(haystack: Haystack) -> Iterator[Statement]:
    """Yield the sentences of medium length that are not questions."""
    for session in haystack.sessions:
        ids = [f"{session.session_id}:{index}" for index in range(len(session.turns))]
        for index, turn in enumerate(session.turns):
            around = frozenset(ids[max(0, index - 1) : index + 2])
            for sentence in map(str.strip, _SENTENCE_END.split(turn.content)):
                if _FEWEST <= len(sentence.split()) <= _MOST and not sentence.endswith("?"):
                    yield Statement(
                        sentence, frozenset(content_words(sentence)), session.session_id, ids[index], around
                    )


def topical_sentence(question: Question, gold: Gold, candidates: list[Statement]) -> tuple[str, str] | None:
    """Return the statement outside the evidence, without words of the gold, that shares most with the question.

    Neighbours of evidence turns are excluded too, since they repeat it. If only sessions are labelled, they are.

    Args:
        gold: answer and evidence of the question.
        candidates: statements of its haystack.

    Returns:
        The sentence and its turn id; None if there is none.
    """
    question_words, answer = set(content_words(question.text)), set(content_words(str(gold.answer)))
    own = answer - question_words or answer
    turns, sessions = set(gold.evidence_turns), set(gold.evidence_sessions)

    def is_evidence(statement: Statement) -> bool:
        return bool(statement.around & turns) if turns else statement.session_id in sessions

    numbers = numbers_in(str(gold.answer))
    near = (s for s in candidates if len(s.words & question_words) >= _SHARED and not s.words & own)
    fitting = [s for s in near if not is_evidence(s) and not numbers & numbers_in(s.sentence)]
    if not fitting:
        return None
    best = max(fitting, key=lambda s: (len(s.words & question_words), -len(s.words), s.turn_id))
    return best.sentence, best.turn_id
