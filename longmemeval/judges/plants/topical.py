"""A sentence of the haystack on a question's topic that does not answer it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from longmemeval.core.text.words import content_words
from longmemeval.judges.plants.forms import numbers_in
from longmemeval.records import Gold, Haystack, Question

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FEWEST, _MOST = 5, 40
"""Words of such a sentence."""
_SHARED = 2
"""Content words that it must share with the question, at least."""


class Said(NamedTuple):
    """A statement of a haystack."""

    sentence: str
    words: frozenset[str]
    """Its content words."""
    session_id: str
    turn_id: str
    around: frozenset[str]
    """The turns it is in, and beside."""


def statements(haystack: Haystack) -> Iterator[Said]:
    """Sentences of middling length that ask nothing."""
    for session in haystack.sessions:
        ids = [f"{session.session_id}:{index}" for index in range(len(session.turns))]
        for index, turn in enumerate(session.turns):
            around = frozenset(ids[max(0, index - 1) : index + 2])
            for sentence in map(str.strip, _SENTENCE_END.split(turn.content)):
                if _FEWEST <= len(sentence.split()) <= _MOST and not sentence.endswith("?"):
                    yield Said(sentence, frozenset(content_words(sentence)), session.session_id, ids[index], around)


def topical_sentence(question: Question, gold: Gold, said: list[Said]) -> tuple[str, str] | None:
    """The statement that shares most words with the question, outside the evidence and without a word of the gold.

    Turns beside evidence turns are left out too: they repeat it. Where only sessions are labelled, these are.

    Args:
        question: what is asked.
        gold: its answer and where that is.
        said: the statements of its haystack.

    Returns:
        The sentence and where it stands; None where there is none.
    """
    asked, answer = set(content_words(question.text)), set(content_words(str(gold.answer)))
    own = answer - asked or answer
    turns, sessions = set(gold.evidence_turns), set(gold.evidence_sessions)

    def is_evidence(one: Said) -> bool:
        return bool(one.around & turns) if turns else one.session_id in sessions

    numbers = numbers_in(str(gold.answer))
    near = (one for one in said if len(one.words & asked) >= _SHARED and not one.words & own)
    fitting = [one for one in near if not is_evidence(one) and not numbers & numbers_in(one.sentence)]
    if not fitting:
        return None
    best = max(fitting, key=lambda one: (len(one.words & asked), -len(one.words), one.turn_id))
    return best.sentence, best.turn_id
