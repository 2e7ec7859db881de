"""Matching score of each recalled sentence for a question."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Literal

from msgspec import Struct

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS
from longmemeval.core.text.words import IRREGULAR, content_words, stem
from longmemeval.llm.protocol import Passage

# Values in a sentence that a question can ask for: money, numbers, dates, places and others.

Kind = Literal[
    "money", "duration", "distance", "age", "time", "weekday", "date", "place", "person", "name", "colour", "figure"
]

_UP_TO_NINETEEN = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {word: number for number, word in enumerate(_UP_TO_NINETEEN)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ONES = "|".join(_UP_TO_NINETEEN[1:10])
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
NUMBER = rf"(?:{_DIGITS}|(?:(?:{'|'.join(_TENS)})(?:-(?:{_ONES}))?|{'|'.join(_UP_TO_NINETEEN)})\b)"
"""A number in digits or in words, as a pattern."""

_MONTH = "|".join(MONTHS)
_WEEKDAY = "|".join(rf"\b{day}s?\b" for day in WEEKDAYS)
_CAPITAL = r"(?!I['\u2019])[A-Z\u00c0-\u00de][\w'\u2019-]+"
_UNIT_OF_TIME = r"(?:second|minute|hour|day|night|week|fortnight|month|year)"
_UNIT_OF_LENGTH = r"(?:km|m|cm|kilomet(?:re|er)s?|met(?:re|er)s?|miles?|yards?|feet)"
_COLOURS = (
    *("red", "orange", "yellow", "green", "blue", "purple", "violet", "pink", "brown", "black", "white", "grey"),
    *("gray", "silver", "gold", "golden", "beige", "cream", "turquoise", "teal", "maroon", "navy"),
)
_PATTERNS: dict[Kind, re.Pattern[str]] = {
    "money": re.compile(rf"[$\u00a3\u20ac]\s?{_DIGITS}|\b{_DIGITS} ?(?:dollars|pounds|euros|bucks)\b"),
    "duration": re.compile(
        rf"\b{NUMBER}[\s-]+(?:and a half )?{_UNIT_OF_TIME}s?\b|\ban? (?:hour|day|week|month|year)\b", re.IGNORECASE
    ),
    "distance": re.compile(rf"\b{NUMBER}\s?{_UNIT_OF_LENGTH}\b", re.IGNORECASE),
    "age": re.compile(rf"\b{NUMBER}[\s-]years?\b|\b(?:is|am|are|turn(?:s|ed)|aged?) {NUMBER}\b", re.IGNORECASE),
    "time": re.compile(
        rf"\b\d{{1,2}}[:.]\d\d\b|\b\d{{1,2}} ?(?:a\.?m|p\.?m)\b|\b(?:at|past|to) (?:{_ONES}|ten|eleven|twelve)\b",
        re.IGNORECASE,
    ),
    "weekday": re.compile(_WEEKDAY),
    "date": re.compile(
        rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b|\b(?:{_MONTH}) \d+\b|\bin (?:{_MONTH})\b"
        rf"|\b(?:19|20)\d\d\b|{_WEEKDAY}"
    ),
    "place": re.compile(rf"\b(?:in|at|to|from|near|of|on|for|around|outside|above)(?: the)? {_CAPITAL}"),
    "person": re.compile(rf"\b(?:Mr|Mrs|Ms|Dr|Prof)\.? {_CAPITAL}|(?<=[a-z,] ){_CAPITAL}"),
    "name": re.compile(rf"(?<=[a-z,:] ){_CAPITAL}|[\"\u201c]|^{_CAPITAL} {_CAPITAL}"),
    "colour": re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b", re.IGNORECASE),
    "figure": re.compile(rf"\b\d[\w.:,]*(?! (?:{_MONTH}))|\b(?!one\b){NUMBER}", re.IGNORECASE),
}
_CHANGING = frozenset(stem(word.lower()) for word in (*_NUMBERS, *_ORDINALS, *MONTHS, *WEEKDAYS))


@lru_cache(maxsize=1 << 15)
def values_of(kind: Kind, sentence: str) -> tuple[str, ...]:
    """Return the values of a kind in `sentence`, in order."""
    return tuple(match.group() for match in _PATTERNS[kind].finditer(sentence))


def holds(kind: Kind, sentence: str) -> bool:
    """Return whether `sentence` contains a value of the kind."""
    return bool(values_of(kind, sentence))


def number(text: str) -> float | None:
    """Return the number in digits in `text`, or that `text` is in words ("thirty-one"); None if there is none."""
    if digits := re.search(_DIGITS, text):
        return float(digits.group().replace(",", ""))
    parts = [_NUMBERS.get(part) for part in text.lower().strip().split("-")]
    return None if None in parts else float(sum(filter(None, parts)))


def is_value(word: str) -> bool:
    """Return whether a stem is a number, a month or a weekday: the words that change when a fact does."""
    return any(letter.isdigit() for letter in word) or word in _CHANGING


# Parsing a question by its wording: the kind of value it asks for, the person, and whether to add up.

_OF_ASSISTANT = re.compile(
    r"\b(?:did|do|had|have) you\b|\byou (?:once|\w+ed|gave|told|said|find|found)\b"
    r"|\byour (?:advice|suggestion|recommendation|tip)\b"
)
_ADVICE = re.compile(
    r"\b(?:can|could|would) you (?:please )?(?:suggest|recommend|help)|\bany (?:ideas?|tips|suggestions|advice)\b"
    r"|(?:^|[.!?] )(?:what|where|which|how|who)\b[^?]*\b(?:should|could|might|shall|can) (?:i|we)\b"
    r"|\bwhat would i (?:enjoy|like|love)\b|\bi'd like to\b.*\bhow\b"
)
_ABOUT_USER = re.compile(r"\b(?:i|i'm|i've|i'd|my|mine|me|we|our|us)\b")
_PAST = re.compile(r"\b(?:did|was|were)\b|\bhad (?:i|we)\b")
_STATE = re.compile(r"\b(?:by now|at the moment|now|currently|these days|at present)\b")
_MUCH = re.compile(r"\bhow (?:many|much)\b|\bin all\b|\bin total\b|\baltogether\b")
_TOTAL = re.compile(
    r"\b(?:altogether|in all|in total|combined|so far|total (?:number|amount|cost)|by how (?:many|much)|since)\b"
    r"|\b(?:this|last|past) (?:\w+ )?(?:year|season|spring|summer|autumn|fall|winter|month|week)s?\b"
    r"|\bhow many\b[^?]*?\b(?:have|has|did) (?:i|we)\b(?! (?:own|have|had|need|want|got)\b)"
    r"|\bhow many\b.*\bhave become\b"
)
_KINDS: tuple[tuple[Kind, str], ...] = (
    (
        "money",
        r"\bhow much\b[^?]*\b(?:pa(?:y|id)|costs?|charged?|spen[dt]|borrow(?:ed)?|earn(?:ed)?|rent|price|ow(?:e|ed)"
        r"|quoted?|deposit|saved?|lend|lent|worth|get for|is|are|was|were)\b"
        r"|\bwhat\b[^?]*\b(?:costs?|price|charges?|fee|rent|pay|paid|salary)\b",
    ),
    ("duration", r"\bhow long\b"),
    ("distance", r"\bhow far\b"),
    ("age", r"\bhow old\b|\bwhat age\b"),
    (
        "time",
        r"\b(?:what|which) time\b"
        r"|\bwhen\b[^?]*\b(?:shift|shop|alarm|train|bus|flight)s?\b[^?]*\b(?:start|leave|open|close|go)\b",
    ),
    ("weekday", r"\b(?:which|what) (?:days|weekdays?|day of the week)\b|\bwhich day\b"),
    ("date", r"\bwhen\b|\b(?:what|which) date\b|\bwhat day\b"),
    (
        "place",
        r"\bwhere (?:do|did|does|is|was|are|were|has|have)\b|\bwhat (?:is|was) (?:the|my) (?:\w+ ){0,2}place\b"
        r"|\b(?:which|what) (?:city|town|country|place|suburb|village|university|school)\b",
    ),
    ("person", r"^who\b|\bwhose\b"),
    ("name", r"\bwhat\b[^?]*\b(?:name|called|title|language)\b|\bwhich (?:name|language|book|package|company|brand)\b"),
    ("colour", r"\b(?:what|which) colou?r\b"),
    (
        "figure",
        r"\b(?:what|which) (?:\w+ )?(?:number|size|room|route|score|percentage|share|temperature|grade|best)\b"
        r"|\bpersonal best\b|\bhow (?:many|much|often)\b|\bwhat\b.{0,30}\b(?:number|grade)\b",
    ),
)
_KIND_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_RATE = re.compile(r"\b(?:an?|per|each|every) (hour|day|night|week|month|year)\b")
_COUNTED = re.compile(
    r"\bhow many (?:full |whole |new |more |different )?(?:(?:kinds|pieces|types) of )?(?P<noun>[\w-]+)"
)
_LIGHT = frozenset(
    content_words(
        "get give put take make go come look find hold keep become thing kind sort type part piece way lot time amount "
        "number name call new old next first last total altogether far moment present current currently really "
        "actually exactly like"
    )
)
"""Words that say little about the question's subject."""
_PERIODS = frozenset(content_words("year season spring summer autumn fall winter month week " + " ".join(MONTHS)))
_OF_KIND: dict[Kind, frozenset[str]] = {
    "money": frozenset(content_words("pay cost price charge spend money")),
    "duration": frozenset(content_words("long")),
    "age": frozenset(content_words("age")),
    "time": frozenset(content_words("hour clock")),
    "weekday": frozenset(content_words("day weekday week date")),
    "date": frozenset(content_words("date day month year due")),
    "place": frozenset(content_words("place live")),
    "person": frozenset(content_words("person")),
    "colour": frozenset(content_words("colour color")),
    "figure": frozenset(content_words("size")),
    "distance": frozenset(content_words("distance")),
}
"""Words that ask for the kind of value, and for nothing else."""


class ParsedQuestion(Struct, frozen=True):
    """A parsed question."""

    text: str
    words: frozenset[str]
    """Stems of the words about its subject."""
    kind: Kind | None
    """Kind of value that answers it; None if the wording does not say."""
    about_assistant: bool
    """True if it asks about statements of the assistant."""
    about_user: bool
    """True if it asks about the user."""
    advice: bool
    """True if it asks for a suggestion, which depends on the user's tastes."""
    total: bool
    """True if it asks for a sum or a count over several statements."""
    past: bool
    """True if it asks about the past, so that later statements are not updates."""
    rate: str
    """Unit of "a month", "per hour" and so on if it asks for money; empty if it names none."""
    counted: str
    """Noun counted by "how many", verbatim."""


@lru_cache(maxsize=1024)
def parse_question(question: str) -> ParsedQuestion:
    """Parse `question`."""
    low = question.lower().replace("\u2019", "'")
    advice = _ADVICE.search(low) is not None
    kind = None if advice else next((kind for kind, pattern in _KIND_PATTERNS if pattern.search(low)), None)
    total = bool(_MUCH.search(low) and _TOTAL.search(low) and not advice and not _STATE.search(low))
    every = frozenset(content_words(question))
    words = every - _LIGHT - (_OF_KIND.get(kind, frozenset()) if kind else frozenset())
    if total:
        words = words - _PERIODS or words
    rate = _RATE.search(low) if kind == "money" else None
    counted = _COUNTED.search(low)
    return ParsedQuestion(
        text=question,
        words=words or every,
        kind=kind or ("figure" if total else None),
        about_assistant=not advice and _OF_ASSISTANT.search(low) is not None,
        about_user=_ABOUT_USER.search(low) is not None,
        advice=advice,
        total=total,
        past=_PAST.search(low) is not None,
        rate=rate[1] if rate else "",
        counted=counted["noun"] if counted else "",
    )


# Recalled sentences, and properties derived from their wording.

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9$\u00a3\u20ac])|\s*\n\s*")
_QUESTION_END = re.compile(r"\?[\"')\]*]*$")
_BY_SPEAKER = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|[Mm]y|[Mm]ine|[Ww]e|[Ww]e're|[Ww]e've|[Oo]ur|me|us)\b")
_RELATION = (
    "friend|colleague|coworker|neighbour|neighbor|boss|supervisor|flatmate|roommate|buddy|cousin|uncle|aunt|brother|"
    "sister|mother|mum|mom|father|dad|son|daughter|niece|nephew|client|landlord|teacher"
)
_OTHER = re.compile(
    rf"^(?:[\w',]+ ){{0,2}}?(?:[Mm]y|[Oo]ur|[Aa]n?|[Tt]he) (?:\w+ )?(?P<relation>{_RELATION})\b"
    r"|^(?:(?:Mr|Mrs|Ms|Dr)\.? )?(?P<name>[A-Z][a-z]+)(?:'s [\w-]+| [A-Z][a-z]+)?"
    r"(?:, (?:my|our) (?P<kin>[\w-]+),|,[^,]+,)? (?P<verb>[a-z]+)\b"
    r"|^(?P<pronoun>He|She|They|He's|She's|They're)\b"
)
_ONESELF = re.compile(rf"\b(?:I|I'm|I've|I'd|I'll|me|mine|we|us|our|my (?!{_RELATION}))\b")
_VERB = re.compile(r"^(?:has|had|is|was|would|will|\w{2,}s|\w{2,}ed)$")
_NOT_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
        The This That These Those There Then They It He She We You I If In On At And But So What Who How Why When Where
        Here Yes No Not Now Just My Mine Our Your His Her Its One Two Three Nobody Everyone Somebody Something Nothing
        Everything Today Tonight Tomorrow Yesterday Last Next Each Every Some Most Many Any All Both
        """,
    )
)
_NO_LONGER = re.compile(
    r"\b(?:used to|no longer|not any ?more|any more|any longer|would have|wouldn't have|was going to|were going to|"
    r"meant to|wanted to|thought of|offered to|instead of|not my|isn't me|didn't)\b",
    re.IGNORECASE,
)
_UPDATE = re.compile(
    rf"\b(?:now|from (?:today|this|now|next|{'|'.join(MONTHS)})|as of|since (?:today|tonight|yesterday|this)|instead|"
    r"these days|moved|changed|swap(?:ped)?|finally|final|(?:weeks?|months?|days?) later|later than|after all|so it's|"
    r"new|update|latest|tonight|today)\b",
    re.IGNORECASE,
)


class Sentence(Struct, frozen=True):
    """One sentence and properties of its wording."""

    text: str
    words: frozenset[str]
    """Stems of its content words."""
    question: bool
    first_person: bool
    other: str
    """First subject, if not the speaker: a relation ("brother"), a name or a pronoun, in lower case."""
    partly: bool
    """With `other`: True if it may still be about the speaker ("The landlord has put up my rent")."""
    ended: bool
    """True if it refers to something that is over, or was only intended."""
    update: bool
    """True if it states that something is true from now on."""


@lru_cache(maxsize=1 << 14)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of one message, in order."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(text))
    return tuple(map(_sentence, filter(None, pieces)))


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> frozenset[str]:
    """Return the stems of the content words of one message."""
    return frozenset().union(*(sentence.words for sentence in sentences_of(text)))


def fullest_sentence(text: str) -> str | None:
    """Return the sentence with the most content words, the first of equals; None if no sentence has any."""
    best = max(sentences_of(text), key=lambda sentence: len(sentence.words), default=None)
    return best.text if best and best.words else None


def sessions_of(passages: Sequence[Passage]) -> list[range]:
    """Return the positions of each session's passages: neighbours of the same time; undated ones stand alone."""
    sessions: list[range] = []
    for _, group in groupby(range(len(passages)), key=lambda place: passages[place].date or place):
        places = list(group)
        sessions.append(range(places[0], places[-1] + 1))
    return sessions


def _sentence(text: str) -> Sentence:
    other = _OTHER.search(text)
    return Sentence(
        text=text,
        words=frozenset(content_words(text)),
        question=_QUESTION_END.search(text) is not None,
        first_person=_BY_SPEAKER.search(text) is not None,
        other=_subject(other) if other else "",
        partly=other is not None and bool(other["pronoun"] or _ONESELF.search(text, other.end())),
        ended=_NO_LONGER.search(text) is not None,
        update=_UPDATE.search(text) is not None,
    )


def _subject(other: re.Match[str]) -> str:
    if other["name"]:
        verb = other["verb"]
        if other["name"] in _NOT_NAMES or not (_VERB.match(verb) or verb in IRREGULAR):
            return ""
    return str(other["kin"] or other["relation"] or other["pronoun"] or other["name"]).lower()


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
