"""The plants of `answer_planting`: answers made of a gold by rules alone."""

import re
from collections.abc import Collection, Iterator
from random import Random
from typing import NamedTuple

from longmemeval.core.text.words import content_words
from longmemeval.judges.offline.refusal import abstains
from longmemeval.judges.plants.forms import (
    amounts_in,
    asked_for,
    asks_for_value,
    is_date,
    kind_of,
    names_several,
    near,
    numbers_in,
    other_forms,
    person_names,
    polarity_of,
    reordered,
    stated,
    unit_of,
    with_other_date,
    with_other_name,
    with_other_number,
    with_other_polarity,
)
from longmemeval.judges.plants.planting import DECLINES, Ground, Made, non_answers
from longmemeval.records import Gold, Haystack, Question

# A sentence of the haystack on a question's topic that does not answer it.

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


LONGEST_GOLD = 25
"""Maximum words of a gold that is an answer. A longer one describes answers, as with preferences: neither it nor a
changed copy is an answer."""
MOST_BESIDE = 2
"""Maximum content words of a gold, apart from those of the question, that a changed value leaves. If more are left, a
judge may find that the text still contains the answer."""

_POLITE = (
    "Thanks for asking! I looked through everything we have talked about so far to be sure, and as far as I can tell "
    "the answer is this: {gold} I hope that is what you were after. Let me know if you would like to hear more about "
    "it, I am always happy to help.",
    "Great question, and a nice thing to come back to. Going by our earlier conversations: {gold} If anything about "
    "that has changed in the meantime, just tell me and I will keep it in mind.",
)
_VAGUE = (
    "You have talked with me about this before: {asked}. You told me how it went and what you thought of it, and it "
    "was clear that it mattered to you.",
    "This came up in our conversations, {asked} included. A lot was said on it over time, and as so often it depends "
    "on how one looks at it.",
)
_BEFORE, LONGEST_DUMP = 3, 300
"""Number of turns of a dump before the evidence, and its maximum words."""
_BOTH = "{wrong} Or it may be this: {gold} It is one of the two, I cannot tell which."


def polite(answer: str, random: Random) -> str:
    """Return an answer inside a long, polite one."""
    return random.choice(_POLITE).format(gold=sentence(answer))


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends a sentence."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


class AnswerPlants:
    """Maker of planted answers to the questions of one data set."""

    def __init__(self, ground: Ground, described: Collection[str]) -> None:
        self._ground = ground
        self._described = described
        self._latest: tuple[str, list[Statement]] | None = None
        self._asked = {question.question_id: asked_for(question.text) for question in ground.questions}
        self._others: dict[tuple[str, ...], list[Gold]] = {}
        for gold in ground.golds.values():
            if not gold.abstention and self._is_answer(gold):
                asked = self._asked.get(gold.question_id, "")
                for key in {self._likeness(gold), (gold.question_type, asked)}:
                    self._others.setdefault(key, []).append(gold)
        golds = ground.golds.values()
        written = "\n".join([*map(_text, golds), *(question.text for question in ground.questions)])
        self._not_names = set(re.findall(r"\b[a-z]+\b", written))
        self._names: dict[str, set[str]] = {}
        for gold in golds:
            if not gold.abstention and (names := self._names_alone(_text(gold))):
                self._names.setdefault(self._asked.get(gold.question_id, ""), set()).update(names)

    def of(self, question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        """Yield the plants of one question, at most one of each kind."""
        return self._unanswerable(gold, random) if gold.abstention else self._answerable(question, gold, random)

    def _is_answer(self, gold: Gold) -> bool:
        return gold.question_type not in self._described and len(_text(gold).split()) <= LONGEST_GOLD

    def _unanswerable(self, gold: Gold, random: Random) -> Iterator[Made]:
        yield Made("declines", random.choice(DECLINES))
        if gold.trap:
            yield Made("answers-unanswerable", gold.trap, "the trap of the question")
        elif other := self._other_gold(gold, (gold.question_type, self._asked.get(gold.question_id, "")), random):
            yield Made("answers-unanswerable", _text(other), f"gold of {other.question_id}")
        yield from non_answers(random)

    def _answerable(self, question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        text = _text(gold)
        if self._is_answer(gold):
            yield from _right(question, text, random)
            yield from self._wrong(question, gold, text, random)
        # A statement on the topic may decide between yes and no.
        if not polarity_of(text) and (topical := topical_sentence(question, gold, self._statements(question))):
            yield Made("topical", *topical)
        # If the question offers a choice, its words are the answer.
        if not set(content_words(text)) <= set(content_words(question.text)):
            yield Made("vague", vague(question.text, random))
        if repeated := dump(gold, self._ground.haystack(question)):
            yield Made("dump", *repeated)
        if not abstains(text):
            yield Made("refusal", random.choice(DECLINES))
        yield from non_answers(random)

    def _wrong(self, question: Question, gold: Gold, text: str, random: Random) -> Iterator[Made]:
        changed = list(self._changed(question, gold, text, random))
        yield from changed
        other = self._other_gold(gold, self._likeness(gold), random)
        if other:
            yield Made("other-question", _text(other), f"gold of {other.question_id}")
        updated = self._ground.ability(gold) == "knowledge-update"
        if updated and (before := superseded(text, gold, self._ground.haystack(question))):
            yield Made("superseded", *before)
        wrong = changed[0].text if changed else _text(other) if other else ""
        if wrong:
            yield Made("both", _BOTH.format(gold=sentence(text), wrong=sentence(wrong)), f"beside: {wrong}")

    def _changed(self, question: Question, gold: Gold, text: str, random: Random) -> Iterator[Made]:
        # If several values are named, a wrong one may stand beside the right answer.
        if names_several(text) or names_several(question.text):
            return
        # Values that the gold also accepts stay right.
        right = numbers_in(str(gold.answer))
        changes = {
            "changed-number": with_other_number(text, right, random) if asks_for_value(question.text, text) else None,
            "changed-date": with_other_date(text, random) if asks_for_value(question.text, text) else None,
            "changed-name": with_other_name(text, self._names_like(question, text), random, self._not_names),
            "changed-polarity": with_other_polarity(text),
        }
        for kind, change in changes.items():
            if change and (kind == "changed-polarity" or is_asked(change[1].partition(" -> ")[0], text, question.text)):
                yield Made(kind, *change)

    def _statements(self, question: Question) -> list[Statement]:
        """Return the statements of a question's haystack, cached for the next question on it."""
        if self._latest is None or self._latest[0] != question.haystack_id:
            self._latest = question.haystack_id, list(statements(self._ground.haystack(question)))
        return self._latest[1]

    def _names_alone(self, text: str) -> list[str]:
        """Return the names of a text of names; with other words they may name anything ("with Max, by the sea")."""
        names = person_names(text, self._not_names)
        return names if set(content_words(text)) <= set(content_words(" ".join(names))) else []

    def _names_like(self, question: Question, text: str) -> list[str]:
        """Return the names that answer questions like this one; none for a text that is more than names."""
        like = self._names.get(self._asked.get(question.question_id, ""), set())
        return sorted(like) if self._names_alone(text) else []

    def _likeness(self, gold: Gold) -> tuple[str, ...]:
        """Return what golds have in common that may pass for one another: numbers the unit, texts what is asked for."""
        kind = kind_of(_text(gold))
        own = unit_of(_text(gold)) if kind == "number" else self._asked.get(gold.question_id, "")
        return gold.question_type, kind, "" if kind == "date" else own

    def _other_gold(self, gold: Gold, key: tuple[str, ...], random: Random) -> Gold | None:
        """Return a gold under the key without a near number of this one and, except its unit, a content word of it."""
        # Swapping yes and no is `changed-polarity`.
        if "polarity" in key:
            return None
        own, numbers = set(content_words(str(gold.answer))), amounts_in(str(gold.answer))
        if "number" in key:
            own = set()
        candidates = [
            other
            for other in self._others.get(key, [])
            if other.question_id != gold.question_id
            and not own & set(content_words(str(other.answer)))
            and not near(numbers, amounts_in(str(other.answer)))
        ]
        return random.choice(candidates) if candidates else None


def is_asked(value: str, text: str, question: str) -> bool:
    """Return whether a question asks for a value of its gold: it is not in the question and is most of the answer.

    Args:
        value: a value such as a number or a name.
        text: the gold that contains it.
    """
    in_question, changed = set(content_words(question)), set(content_words(value))
    beside = set(content_words(text)) - in_question - changed
    # The day and the year belong to a changed month.
    left = [word for word in beside if not (is_date(value) and word.isdigit())]
    return not in_question & changed and len(left) <= MOST_BESIDE


def _text(gold: Gold) -> str:
    return stated(str(gold.answer).strip())


def _right(question: Question, text: str, random: Random) -> Iterator[Made]:
    yield Made("gold", text)
    yield Made("polite", polite(text, random))
    for form, made_by in other_forms(text):
        yield Made("other-form", form, made_by)
    if other_order := reordered(text, question.text):
        yield Made("reordered", other_order)


def vague(question: str, random: Random) -> str:
    """Return words of the question, and the claim that they were discussed."""
    words = dict.fromkeys(word for word in re.findall(r"[\w'\u2019-]+", question) if content_words(word))
    return random.choice(_VAGUE).format(asked=", ".join(words))


def dump(gold: Gold, haystack: Haystack) -> tuple[str, str] | None:
    """Return the text of the first evidence session, from shortly before the evidence, and the session's id.

    Args:
        gold: gold with the evidence ids.

    Returns:
        At most `LONGEST_DUMP` words; None if no session is labelled.
    """
    session = next((session for session in haystack.sessions if session.session_id in gold.evidence_sessions), None)
    if session is None:
        return None
    ids = [f"{session.session_id}:{place}" for place in range(len(session.turns))]
    first = next((place for place, turn in enumerate(ids) if turn in gold.evidence_turns), 0)
    words = " ".join(turn.content for turn in session.turns[max(0, first - _BEFORE) :]).split()
    return (" ".join(words[:LONGEST_DUMP]), session.session_id) if words else None


def superseded(text: str, gold: Gold, haystack: Haystack) -> tuple[str, str] | None:
    """Return the gold with the number that the first evidence turn gives for the same thing; None without one.

    Args:
        text: the gold answer, with one number before a unit, such as `Three days`.
        gold: gold with the evidence ids.
    """
    turns = {f"{s.session_id}:{i}": turn for s in haystack.sessions for i, turn in enumerate(s.turns)}
    evidence = [turns[turn_id].content for turn_id in gold.evidence_turns if turn_id in turns]
    if len(evidence) < 2 or polarity_of(text):
        return None
    own = _VALUE.search(text)
    if not own:
        return None
    for match in _VALUE.finditer(evidence[0]):
        if match[2].lower() == own[2].lower() and match[1].lower() != own[1].lower() and match[1] not in text:
            return text.replace(own[1], match[1], 1), f"{own[1]} -> {match[1]}, said in the first evidence turn"
    return None


_VALUE = re.compile(r"\b(\d[\d,.:]*\d|\d|one|two|three|four|five|six|seven|eight|nine|ten|twelve) ([a-z]{3,})", re.I)
