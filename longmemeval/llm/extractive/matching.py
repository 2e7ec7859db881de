"""How well each sentence of what was recalled matches a question."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from longmemeval.core.text.words import stem
from longmemeval.llm.extractive.asked import Asked
from longmemeval.llm.extractive.sentences import Sentence, sentences_of, sessions_of, words_of
from longmemeval.llm.extractive.values import Kind, holds
from longmemeval.llm.protocol import Passage

# What a word of the question counts that stands not in the sentence but beside it.
_NEIGHBOUR = 0.5
_ASKED_BEFORE = 0.45
_SESSION = 0.3
_RELATED_FORM = 0.7
"""What a synonym or another form of the word counts."""

# By these a sentence's score is multiplied.
_QUESTION = 0.25
_FIRST_PERSON = 1.2
_OTHER_SPEAKER = 0.35
_OTHER_PERSON = 0.3
_PARTLY_OTHER_PERSON = 0.5
_ENDED = 0.6
_WITHOUT_RATE = 0.4
_WITHOUT_VALUE = 0.25
_WITHOUT_VAGUE_VALUE = 0.5
_VAGUE: frozenset[Kind] = frozenset({"name", "person", "figure"})
"""Kinds of value that a pattern finds in many a sentence that has none, and misses in others."""

_SYNONYMS = (
    *("father dad daddy", "mother mum mom mummy", "bike bicycle", "job work", "kid child", "start begin", "kilo kg"),
    *("film movie", "doctor physician gp", "shop store", "phone telephone", "tv television", "car automobile"),
    *("marry wedding", "buy purchase", "photo picture photograph", "boat dinghy ship", "flat apartment"),
    *("holiday vacation trip", "gift present"),
)
_FAMILY = {
    word: tuple(other for other in family if other != word)
    for family in (tuple(map(stem, words.split())) for words in _SYNONYMS)
    for word in family
}

Strengths = dict[str, float]
"""A wanted word to how surely a text holds it: 1, or less for a related form."""


class Candidate(Struct, frozen=True):
    """A sentence, where it stands and how well it matches."""

    score: float
    reach: float
    """The score before what speaks for or against the sentence."""
    coverage: float
    """Share of the question's words that its session holds, 0 to 1."""
    session: int
    passage: int
    sentence: Sentence
    date: datetime | None
    speaker: str
    foreign: bool
    """Of somebody else than the question asks about."""
    direct: bool
    """Holds a word of the question itself."""


class Matcher:
    """The sentences of one prompt.

    Args:
        passages: what was recalled, oldest first.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.sessions = sessions_of(passages)
        self.held = [words_of(passage.text) for passage in passages]
        self._words = frozenset().union(*self.held)
        speakers = {passage.speaker.lower() for passage in passages}
        self.names = speakers - {"", "user", "assistant"}
        """Of people who talk to one another, where it is not a user and an assistant."""

    def candidates(self, asked: Asked, words: Iterable[str] | None = None) -> list[Candidate]:
        """Every sentence of a session that holds any of `words` (those of the question), in order."""
        named = self.named(asked)
        wanted = frozenset(asked.words if words is None else words)
        wanted = wanted - named or wanted
        weights, forms = self.weights(wanted), self.forms(wanted)
        result: list[Candidate] = []
        for number, session in enumerate(self.sessions):
            found = self.strengths(frozenset().union(*self.held[session.start : session.stop]), forms)
            # Sorted, so that the sums over it never differ.
            whole, before = dict(sorted(found.items())), Strengths()
            for place in session if whole else ():
                for sentence, reach, direct in self._reached(place, weights, forms, whole, before):
                    passage = self.passages[place]
                    foreign = _is_foreign(asked, sentence, passage.speaker.lower(), named)
                    score = reach * _factor(asked, sentence, passage.speaker.lower(), named)
                    coverage = len(whole) / len(wanted)
                    where = (number, place, sentence, passage.date, passage.speaker)
                    result.append(Candidate(score, reach, coverage, *where, foreign, direct))
                before = self.strengths(self.held[place], forms)
        return result

    def _reached(
        self,
        place: int,
        weights: Mapping[str, float],
        forms: Mapping[str, Mapping[str, float]],
        session: Strengths,
        before: Strengths,
    ) -> Iterator[tuple[Sentence, float, bool]]:
        """The sentences of one passage with what they and their surroundings hold of the wanted words."""
        sentences = sentences_of(self.passages[place].text)
        held = [self.strengths(sentence.words, forms) for sentence in sentences]
        around = {
            word: max(_ASKED_BEFORE * before.get(word, 0.0), _SESSION * strength) for word, strength in session.items()
        }
        for index, (sentence, own) in enumerate(zip(sentences, held, strict=True)):
            beside = [one for one in (*held[max(0, index - 1) : index], *held[index + 1 : index + 2]) if one]
            reach = 0.0
            for word, least in around.items():
                near = max((one.get(word, 0.0) for one in beside), default=0.0) if beside else 0.0
                reach += weights[word] * max(own.get(word, 0.0), _NEIGHBOUR * near, least)
            yield sentence, reach, bool(own)

    def named(self, asked: Asked) -> frozenset[str]:
        """The speakers that the question names."""
        question = asked.text.lower()
        return frozenset(name for name in self.names if re.search(rf"\b{re.escape(name)}\b", question))

    def weights(self, wanted: Iterable[str]) -> dict[str, float]:
        """What each word counts: the fewer passages hold it, the more; together 1."""
        passages = len(self.held)
        rarity = {
            word: math.log1p((1 + passages) / (1 + sum(word in words for words in self.held)))
            for word in sorted(wanted)
        }
        total = sum(rarity.values())
        return {word: value / total for word, value in rarity.items()}

    def forms(self, wanted: Iterable[str]) -> dict[str, dict[str, float]]:
        """From a word of the passages to the wanted words that it stands for, and how surely."""
        forms: dict[str, dict[str, float]] = {}
        starts: dict[str, list[str]] = {}
        for word in wanted:
            starts.setdefault(word[:4], []).append(word)
            for other in _FAMILY.get(word, ()):
                forms.setdefault(other, {})[word] = _RELATED_FORM
        for other in self._words:
            for word in starts.get(other[:4], ()):
                if _are_related(word, other):
                    forms.setdefault(other, {})[word] = _RELATED_FORM
        for word in wanted:
            forms.setdefault(word, {})[word] = 1.0
        return forms

    @staticmethod
    def strengths(words: frozenset[str], forms: Mapping[str, Mapping[str, float]]) -> Strengths:
        """What `words` hold of the wanted ones."""
        found: Strengths = {}
        for word, stands_for in forms.items():
            if word in words:
                for wanted, strength in stands_for.items():
                    found[wanted] = max(strength, found.get(wanted, 0.0))
        return found


def _factor(asked: Asked, sentence: Sentence, speaker: str, named: frozenset[str]) -> float:
    """What speaks for a sentence or against it, besides the words it holds."""
    factor = _QUESTION if sentence.question else 1.0
    if asked.kind and not holds(asked.kind, sentence.text):
        factor *= _WITHOUT_VAGUE_VALUE if asked.kind in _VAGUE else _WITHOUT_VALUE
    if asked.rate and not re.search(rf"\b(?:an?|per|each|every) {asked.rate}\b", sentence.text):
        factor *= _WITHOUT_RATE
    expected = {"assistant" if asked.of_assistant else "user"} if speaker in ("user", "assistant") else named
    if speaker and expected and speaker not in expected:
        factor *= _OTHER_SPEAKER
    if sentence.first_person and not asked.of_assistant:
        factor *= _FIRST_PERSON
    if asked.of_user and sentence.other and not _asks_about(asked, sentence.other):
        factor *= _PARTLY_OTHER_PERSON if sentence.partly else _OTHER_PERSON
    return factor * (_ENDED if sentence.ended else 1.0)


def _is_foreign(asked: Asked, sentence: Sentence, speaker: str, named: frozenset[str]) -> bool:
    if named and speaker:
        return speaker not in named and sentence.first_person
    of_user = asked.of_user and not asked.of_assistant and speaker == "user"
    return of_user and bool(sentence.other) and not sentence.partly and not _asks_about(asked, sentence.other)


def _asks_about(asked: Asked, person: str) -> bool:
    return person in asked.text.lower() or not asked.words.isdisjoint(_FAMILY.get(stem(person), ()))


def _are_related(one: str, other: str) -> bool:
    """Tell whether two stems seem to be of one family, as `translat` and `translator`: they share their beginning."""
    shorter, longer = sorted((one, other), key=len)
    shared = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    return shared >= 5 and shared >= 0.6 * len(longer) and shared >= len(shorter) - 2
