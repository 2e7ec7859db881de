"""Matching score of each recalled sentence for a question."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from longmemeval.core.text.words import stem
from longmemeval.llm.extractive.parsed_question import ParsedQuestion
from longmemeval.llm.extractive.sentences import Sentence, sentences_of, sessions_of, words_of
from longmemeval.llm.extractive.values import Kind, holds
from longmemeval.llm.protocol import Passage

# Weights of a word of the question that is not in the sentence but near it.
_NEIGHBOUR = 0.5
_ASKED_BEFORE = 0.45
_SESSION = 0.3
_RELATED_FORM = 0.7
"""Weight of a synonym or another form of the word."""

# Factors of a sentence's score.
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
"""Kinds of value whose pattern matches many sentences without such a value, and misses others."""

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
"""Wanted words, and the certainty that a text contains them: 1, or less for a related form."""


class Candidate(Struct, frozen=True):
    """A sentence, its position and how well it matches."""

    score: float
    reach: float
    """Score before the factors of the sentence."""
    coverage: float
    """Share of the question's words that its session contains, 0 to 1."""
    session: int
    passage: int
    sentence: Sentence
    date: datetime | None
    speaker: str
    foreign: bool
    """True if it is about another person than the question."""
    direct: bool
    """True if it contains a word of the question itself."""


class Matcher:
    """The sentences of one prompt.

    Args:
        passages: recalled texts, oldest first.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.sessions = sessions_of(passages)
        self.held = [words_of(passage.text) for passage in passages]
        self._words = frozenset().union(*self.held)
        speakers = {passage.speaker.lower() for passage in passages}
        self.names = speakers - {"", "user", "assistant"}
        """Names of people who talk to one another, if they are not a user and an assistant."""

    def candidates(self, question: ParsedQuestion, words: Iterable[str] | None = None) -> list[Candidate]:
        """Return every sentence of sessions that contain any of `words` (those of the question), in order."""
        named = self.named(question)
        wanted = frozenset(question.words if words is None else words)
        wanted = wanted - named or wanted
        weights, forms = self.weights(wanted), self.forms(wanted)
        result: list[Candidate] = []
        for number, session in enumerate(self.sessions):
            found = self.strengths(frozenset().union(*self.held[session.start : session.stop]), forms)
            # Sorted, so that sums over it are deterministic.
            whole, before = dict(sorted(found.items())), Strengths()
            for place in session if whole else ():
                for sentence, reach, direct in self._reached(place, weights, forms, whole, before):
                    passage = self.passages[place]
                    foreign = _is_foreign(question, sentence, passage.speaker.lower(), named)
                    score = reach * _factor(question, sentence, passage.speaker.lower(), named)
                    coverage = len(whole) / len(wanted)
                    origin = (number, place, sentence, passage.date, passage.speaker)
                    result.append(Candidate(score, reach, coverage, *origin, foreign, direct))
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
        """Iterate over one passage's sentences with the wanted words that they and their context contain."""
        sentences = sentences_of(self.passages[place].text)
        held = [self.strengths(sentence.words, forms) for sentence in sentences]
        around = {
            word: max(_ASKED_BEFORE * before.get(word, 0.0), _SESSION * strength) for word, strength in session.items()
        }
        for index, (sentence, own) in enumerate(zip(sentences, held, strict=True)):
            neighbours = [words for words in (*held[max(0, index - 1) : index], *held[index + 1 : index + 2]) if words]
            reach = 0.0
            for word, least in around.items():
                near = max((words.get(word, 0.0) for words in neighbours), default=0.0) if neighbours else 0.0
                reach += weights[word] * max(own.get(word, 0.0), _NEIGHBOUR * near, least)
            yield sentence, reach, bool(own)

    def named(self, question: ParsedQuestion) -> frozenset[str]:
        """Return the speakers that the question names."""
        text = question.text.lower()
        return frozenset(name for name in self.names if re.search(rf"\b{re.escape(name)}\b", text))

    def weights(self, wanted: Iterable[str]) -> dict[str, float]:
        """Return the weight of each word: the fewer passages contain it, the higher; they sum to 1."""
        passages = len(self.held)
        rarity = {
            word: math.log1p((1 + passages) / (1 + sum(word in words for words in self.held)))
            for word in sorted(wanted)
        }
        total = sum(rarity.values())
        return {word: value / total for word, value in rarity.items()}

    def forms(self, wanted: Iterable[str]) -> dict[str, dict[str, float]]:
        """Map words of the passages to the wanted words they stand for, and how certainly."""
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
        """Return how certainly `words` contain each of the wanted ones."""
        certainties: Strengths = {}
        for word, stands_for in forms.items():
            if word in words:
                for wanted, strength in stands_for.items():
                    certainties[wanted] = max(strength, certainties.get(wanted, 0.0))
        return certainties


def _factor(question: ParsedQuestion, sentence: Sentence, speaker: str, named: frozenset[str]) -> float:
    """Return the factor of a sentence's score that does not depend on the words it contains."""
    factor = _QUESTION if sentence.question else 1.0
    if question.kind and not holds(question.kind, sentence.text):
        factor *= _WITHOUT_VAGUE_VALUE if question.kind in _VAGUE else _WITHOUT_VALUE
    if question.rate and not re.search(rf"\b(?:an?|per|each|every) {question.rate}\b", sentence.text):
        factor *= _WITHOUT_RATE
    expected = {"assistant" if question.about_assistant else "user"} if speaker in ("user", "assistant") else named
    if speaker and expected and speaker not in expected:
        factor *= _OTHER_SPEAKER
    if sentence.first_person and not question.about_assistant:
        factor *= _FIRST_PERSON
    if question.about_user and sentence.other and not _asks_about(question, sentence.other):
        factor *= _PARTLY_OTHER_PERSON if sentence.partly else _OTHER_PERSON
    return factor * (_ENDED if sentence.ended else 1.0)


def _is_foreign(question: ParsedQuestion, sentence: Sentence, speaker: str, named: frozenset[str]) -> bool:
    if named and speaker:
        return speaker not in named and sentence.first_person
    about_user = question.about_user and not question.about_assistant and speaker == "user"
    return about_user and bool(sentence.other) and not sentence.partly and not _asks_about(question, sentence.other)


def _asks_about(question: ParsedQuestion, person: str) -> bool:
    return person in question.text.lower() or not question.words.isdisjoint(_FAMILY.get(stem(person), ()))


def _are_related(first: str, second: str) -> bool:
    """Return whether two stems seem to be related, like `translat` and `translator`: they share their start."""
    shorter, longer = sorted((first, second), key=len)
    shared = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    return shared >= 5 and shared >= 0.6 * len(longer) and shared >= len(shorter) - 2
