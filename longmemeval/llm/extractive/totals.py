"""Sums and counts over several statements."""

import re
from collections.abc import Sequence

from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.asked import Asked
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.values import NUMBER, found, number

_SHARE = 0.15
_SHARE_OF_ONE = 0.4
"""A statement is added that has at least this share of the best score; the second where it counts one unsaid."""
_LEAST_COVERAGE = 0.3
_LIST = re.compile(
    r"(?P<items>(?:(?:the|my|our|an?) [\w -]+?, )+(?:the |my |our |an? )?[\w -]+? and (?:the|my|our|an?) "
    r"[\w-]+(?: [\w-]+)??)(?= (?:cost|quote|charge|come|me|for|in|altogether)|\?)",
    re.IGNORECASE,
)
_BEFORE_A_NOUN = re.compile(rf"(?<![\w.])({NUMBER})\b(?=((?:[\s-]*[A-Za-z-]+){{1,4}}))", re.IGNORECASE)
_UNITS = tuple(
    frozenset(content_words(words))
    for words in ("kilo kg kilogram kilogramme", "kilometre kilometer km", "metre meter m", "mile", "hour", "minute")
)
_CURRENCIES = "$\u00a3\u20ac"


def total(asked: Asked, matcher: Matcher, candidates: Sequence[Candidate]) -> str | None:
    """The sum of what single statements say, one per session or per item that the question lists; else their count."""
    statements = _of_items(asked, matcher) or _of_sessions(asked, candidates)
    amounts = [amount for one in statements if (amount := _amount(asked, one.sentence.text)) is not None]
    if not amounts:
        return None
    symbol, unit = (_currency(statements), "") if asked.kind == "money" else ("", f" {_unit(asked)}".rstrip())
    parts = " + ".join(f"{symbol}{amount:,.10g}" for amount in amounts)
    return f"{symbol}{sum(amounts):,.10g}{unit}" + (f" ({parts})" if len(amounts) > 1 else "")


def _of_items(asked: Asked, matcher: Matcher) -> list[Candidate]:
    """The best statement about each item that the question lists; none where it lists none or one is not found."""
    listed = _LIST.search(asked.text)
    if not listed:
        return []
    statements = []
    for item in re.split(r", | and ", listed["items"]):
        words = content_words(item)
        able = (
            [one for one in matcher.candidates(asked, words) if _amount(asked, one.sentence.text) is not None]
            if words
            else []
        )
        if not able:
            return []
        statements.append(max(able, key=lambda one: one.score))
    return statements


def _of_sessions(asked: Asked, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best statement of each session, by the user and about the user."""
    able = [
        one
        for one in candidates
        if not (one.sentence.question or one.foreign or one.speaker.lower() == "assistant")
        and one.coverage >= _LEAST_COVERAGE
        and _amount(asked, one.sentence.text) is not None
    ]
    best = max((one.score for one in able), default=0.0)
    by_session: dict[int, Candidate] = {}
    for one in able:
        said = asked.kind == "money" or found("figure", one.sentence.text)
        if one.score >= (_SHARE if said else _SHARE_OF_ONE) * best:
            before = by_session.get(one.session)
            by_session[one.session] = one if before is None or one.score > before.score else before
    return list(by_session.values())


def _amount(asked: Asked, sentence: str) -> float | None:
    """The amount a statement adds: money, the number before what is counted, or one of it; None: it adds nothing."""
    if asked.kind == "money":
        return next(map(number, found("money", sentence)), None)
    counted = frozenset(content_words(asked.counted))
    unit = next((unit for unit in _UNITS if counted & unit), None)
    for match in _BEFORE_A_NOUN.finditer(sentence):
        if (unit or counted).intersection(content_words(match[2].replace("-", " "))):
            return number(match[1])
    return None if unit else 1.0


def _currency(statements: Sequence[Candidate]) -> str:
    symbols = [value[0] for one in statements for value in found("money", one.sentence.text) if value[0] in _CURRENCIES]
    return max(sorted(set(symbols)), key=symbols.count) if symbols else ""


def _unit(asked: Asked) -> str:
    """The unit after the sum: short where it has a short form."""
    short = {"kilos": "kg", "kilograms": "kg", "kilometres": "km", "kilometers": "km"}
    return short.get(asked.counted, asked.counted)
