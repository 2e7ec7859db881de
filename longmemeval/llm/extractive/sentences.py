"""Recalled sentences, and properties derived from their wording."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from msgspec import Struct

from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text.words import IRREGULAR, content_words
from longmemeval.llm.protocol import Passage

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9$\u00a3\u20ac])|\s*\n\s*")
_QUESTION_END = re.compile(r"\?[\"')\]*]*$")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|[Mm]y|[Mm]ine|[Ww]e|[Ww]e're|[Ww]e've|[Oo]ur|me|us)\b")
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
_ENDED = re.compile(
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
        first_person=_FIRST_PERSON.search(text) is not None,
        other=_subject(other) if other else "",
        partly=other is not None and bool(other["pronoun"] or _ONESELF.search(text, other.end())),
        ended=_ENDED.search(text) is not None,
        update=_UPDATE.search(text) is not None,
    )


def _subject(other: re.Match[str]) -> str:
    if other["name"]:
        verb = other["verb"]
        if other["name"] in _NOT_NAMES or not (_VERB.match(verb) or verb in IRREGULAR):
            return ""
    return str(other["kin"] or other["relation"] or other["pronoun"] or other["name"]).lower()
