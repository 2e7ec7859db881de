"""Parsing a question by its wording: the kind of value it asks for, the person, and whether to add up."""

import re
from functools import lru_cache

from msgspec import Struct

from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.values import Kind

_OF_ASSISTANT = re.compile(
    r"\b(?:did|do|had|have) you\b|\byou (?:once|\w+ed|gave|told|said|find|found)\b"
    r"|\byour (?:advice|suggestion|recommendation|tip)\b"
)
_ADVICE = re.compile(
    r"\b(?:can|could|would) you (?:please )?(?:suggest|recommend|help)|\bany (?:ideas?|tips|suggestions|advice)\b"
    r"|(?:^|[.!?] )(?:what|where|which|how|who)\b[^?]*\b(?:should|could|might|shall|can) (?:i|we)\b"
    r"|\bwhat would i (?:enjoy|like|love)\b|\bi'd like to\b.*\bhow\b"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|my|mine|me|we|our|us)\b")
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
        about_user=_FIRST_PERSON.search(low) is not None,
        advice=advice,
        total=total,
        past=_PAST.search(low) is not None,
        rate=rate[1] if rate else "",
        counted=counted["noun"] if counted else "",
    )
