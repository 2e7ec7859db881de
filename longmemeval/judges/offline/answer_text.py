"""The parts of an answer that count for the rules of `lexical.py`: its beginning and end, not all it repeats."""

import re
from functools import lru_cache

from longmemeval.judges.offline.refusal import conclusion

LONGEST = 80
"""Maximum words of an answer that counts whole. In a longer one only the first and the last words count."""
FIRST, LAST = 20, 40
"""Numbers of words of a longer answer that count."""
LONGEST_ADVICE = 250
"""Maximum words of advice that count, from the beginning."""

_LIST_MARK = re.compile(r"^[ \t]*(?:[-*\u2022]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_CLOSING = re.compile(
    r"\W*(?:let me know|feel free|would you like|do you want|shall i|should i|could you|please|i hope|i can also"
    r"|is there anything|if (?:you|there)\b)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|\u201c[^\u201d]*\u201d")
_OWN_WORDS = re.compile(
    r"\b(?:(?:let|tell|told|remind|give|allow|asked?) me"
    r"|my (?:recommendation|suggestion|apologies|advice|note|record|memor)\w*"
    r"|i (?:would|can|could|will|might|may|do not|don't|am (?:not|unable|happy|glad)|have (?:no|a few|some)|know|think"
    r"|believe|hope|remember|recall|understand|see|suggest|recommend|mentioned|proposed|gave|kept|left)\w*|i'd|i'll)\b"
)
"""Phrases in which an adviser speaks about themselves."""
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|mine|we|our|us)\b")
_SECOND_PERSON = re.compile(r"\b(?:you|your)\b")
_SENTENCE = re.compile(r"(?<=[.!?])[*_\")]*\s+|\n+")


def sentences(answer: str) -> list[str]:
    """Return the sentences of an answer without list marks, and without the offers and questions that end it."""
    parts = [part for part in _SENTENCE.split(_LIST_MARK.sub("", answer)) if re.search(r"\w", part)]
    while len(parts) > 1 and (parts[-1].rstrip(" *_").endswith("?") or _CLOSING.match(parts[-1])):
        parts.pop()
    return parts


@lru_cache(maxsize=512)
def counted(answer: str) -> str:
    """Return the words of an answer that count: all of a short one, the first and the last of a long one."""
    words = " ".join(sentences(answer)).split()
    return " ".join(words if len(words) <= LONGEST else [*words[:FIRST], "\u2026", *words[-LAST:]])


def stated(answer: str) -> list[str]:
    """Return the sentences in which the answer states its result: after "Answer:" or the last "therefore".

    Without either, all that counts; of a long conclusion, as much as of a long answer.
    """
    result = sentences(conclusion(answer))
    return sentences(counted(answer)) if sum(len(sentence.split()) for sentence in result) > LONGEST else result


def advice(answer: str) -> str:
    """Return the beginning of advice, which counts; nothing if the user speaks in the text, as in a history."""
    spoken = _OWN_WORDS.sub(" ", _QUOTED.sub(" ", answer.lower().replace("\u2019", "'")))
    own, addressed = len(_FIRST_PERSON.findall(spoken)), len(_SECOND_PERSON.findall(spoken))
    return "" if own > 2 and own > addressed / 2 else " ".join(answer.split()[:LONGEST_ADVICE])
