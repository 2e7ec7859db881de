"""Retelling what somebody says of themself so that it can be understood alone: "I miss my sister" as of Anna."""

import re
from collections.abc import Mapping

_AUXILIARIES = {
    "'m": "is",
    " am": "is",
    "'ve": "has",
    " have": "has",
    "'ll": "will",
    " do": "does",
    " don't": "doesn't",
    " haven't": "hasn't",
}
_I = re.compile(r"\bI(?P<rest>'m|'ve|'ll|'d| am| haven't| have| don't| do)?\b(?!['-])")
_WE = re.compile(r"\b[Ww]e(?P<rest>'re|'ve|'ll|'d)?\b(?!['-])")
_WOULD = re.compile(r"\s+(?:\w+ly\s+)?(?:like|love|rather|be|say|have|prefer|hate|go|want|need|recommend|suggest)\b")
_OWN = {
    "mine": "theirs",
    "myself": "themself",
    "ourselves": "themselves",
    "our": "their",
    "ours": "theirs",
    "us": "them",
}
_WORDS = re.compile(r"\b(?:mine|myself|ourselves|ours?|us)\b", re.IGNORECASE)
_MY = re.compile(r"\b[Mm]y\b")
_ME = re.compile(r"\b[Mm]e\b(?!')")
_YOU = re.compile(r"\b[Yy]ou(?P<rest>r|rs|'re|'ve|'ll|'d|rself)?\b(?!['-])")
_PRESENT = re.compile(
    r"(?P<adverbs>(?:\s+(?:\w+ly|just|also|always|often|still|now|never|usually))*)\s+"
    r"(?P<verb>love|like|enjoy|hate|prefer|want|need|hope|plan|work|live|play|run|go|make|have|own|think|feel|teach"
    r"|study|volunteer|write|paint|read|watch|collect|speak|use|keep|miss|dislike|adore|practice|train|dream|dance"
    r"|sing|cook|bake|do|walk|swim|garden|eat|drink|know|mean|find|try|get|take|spend|visit|meet|believe|value"
    r"|appreciate|remember|share|see|come|call|ride|hike|drive|grow|raise|struggle|suffer)\b(?!')"
)
_UNKNOWN = re.compile(
    r"\b(?:he|him|his|she|hers?|they|them|their|theirs|it|its|one|ones)\b(?!')|\b(?:he|she|they|it)'", re.I
)
_POINTING = re.compile(
    r"\b(?:this|that|these|those)(?=$|[.,;!?]|\s+(?:is|was|were|are|one|has|had|would|will|really|made)\b)", re.I
)
_ANTECEDENT = re.compile(
    r"\b(?:an?|the|my|our|their|some|two|three|four|five|several|many|\d+|new|\w+'s|both|of|to|in|with|for|from)\s+"
    r"(?!(?:it|them|him|her|this|that|you|me|us)\b)[\w-]+|(?<!^)\b[A-Z][a-z]+",
)


def retold(text: str, speaker: str, other: str) -> str:
    """`text` with the first and second person put into names.

    Args:
        text: a sentence or clause, with single spaces and straight apostrophes.
        speaker: who says it: a name, or "the user".
        other: to whom.
    """
    told = _I.sub(lambda found: _subject(found, speaker, text), text)
    told = _conjugated(told, speaker)
    told = _WE.sub(lambda found: _ours(found, speaker), told)
    told = _WORDS.sub(lambda found: _OWN[found[0].lower()], told)
    named = [False]

    def own(found: re.Match[str]) -> str:
        # The first of a clause that has no other mention of the speaker before it is by name.
        before = told[: found.start()]
        if speaker in before or named[0]:
            return "their"
        named[0] = True
        return f"{speaker}'s"

    told = _MY.sub(own, told)
    told = _ME.sub(speaker, told)
    told = _YOU.sub(lambda found: _addressed(found, other), told)
    return _capital(told)


def _subject(found: re.Match[str], speaker: str, text: str) -> str:
    rest = found["rest"] or ""
    if rest == "'d":
        return f"{speaker} {'would' if _WOULD.match(text, found.end()) else 'had'}"
    after = _AUXILIARIES.get(rest)
    return f"{speaker} {after}" if after else speaker


def _conjugated(text: str, speaker: str) -> str:
    pattern = re.compile(rf"\b{re.escape(speaker)}(?={_PRESENT.pattern})")
    for found in reversed(list(pattern.finditer(text))):
        verb = _PRESENT.match(text, found.end())
        if verb:
            text = f"{text[: verb.start('verb')]}{_third(verb['verb'])}{text[verb.end('verb') :]}"
    return text


def _third(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith(("ch", "sh", "ss", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"


def _ours(found: re.Match[str], speaker: str) -> str:
    after: Mapping[str, str] = {"'re": " are", "'ve": " have", "'ll": " will", "'d": " had"}
    return f"{speaker} and others{after.get(found['rest'] or '', '')}"


def _addressed(found: re.Match[str], other: str) -> str:
    rest = found["rest"] or ""
    if rest in ("r", "rs"):
        return f"{other}'s"
    after: Mapping[str, str] = {"'re": " is", "'ve": " has", "'ll": " will", "'d": " would", "rself": ""}
    return f"{other}{after.get(rest, '')}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def is_self_sufficient(text: str) -> bool:
    """Whether every "it", "she" or "that" of `text` has something before it in `text` that it may stand for."""
    if _POINTING.search(text):
        return False
    unknown = _UNKNOWN.search(text)
    return unknown is None or _ANTECEDENT.search(text[: unknown.start()]) is not None
