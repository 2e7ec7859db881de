"""Sums and counts over several statements."""

import re
from collections.abc import Sequence

from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.parsed_question import ParsedQuestion
from longmemeval.llm.extractive.values import NUMBER, number, values_of

_SHARE = 0.15
_SHARE_OF_ONE = 0.4
"""A statement counts with at least this share of the best score; the second if it implies a count of one."""
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


def total(question: ParsedQuestion, matcher: Matcher, candidates: Sequence[Candidate]) -> str | None:
    """Return the sum of the amounts in single statements; without amounts, the number of statements.

    One statement counts per session, or per item that the question lists.
    """
    statements = _statement_of_each_item(question, matcher) or _statement_of_each_session(question, candidates)
    amounts = [amount for statement in statements if (amount := _amount(question, statement.sentence.text)) is not None]
    if not amounts:
        return None
    symbol, unit = (_currency(statements), "") if question.kind == "money" else ("", f" {_unit(question)}".rstrip())
    parts = " + ".join(f"{symbol}{amount:,.10g}" for amount in amounts)
    return f"{symbol}{sum(amounts):,.10g}{unit}" + (f" ({parts})" if len(amounts) > 1 else "")


def _statement_of_each_item(question: ParsedQuestion, matcher: Matcher) -> list[Candidate]:
    """Return the best statement about each item that the question lists; none if it lists none or one is not found."""
    listed = _LIST.search(question.text)
    if not listed:
        return []
    statements = []
    for item in re.split(r", | and ", listed["items"]):
        words = content_words(item)
        suitable = (
            [
                statement
                for statement in matcher.candidates(question, words)
                if _amount(question, statement.sentence.text) is not None
            ]
            if words
            else []
        )
        if not suitable:
            return []
        statements.append(max(suitable, key=lambda statement: statement.score))
    return statements


def _statement_of_each_session(question: ParsedQuestion, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the best statement of each session, made by the user and about the user."""
    suitable = [
        statement
        for statement in candidates
        if not (statement.sentence.question or statement.foreign or statement.speaker.lower() == "assistant")
        and statement.coverage >= _LEAST_COVERAGE
        and _amount(question, statement.sentence.text) is not None
    ]
    best = max((statement.score for statement in suitable), default=0.0)
    by_session: dict[int, Candidate] = {}
    for statement in suitable:
        states_amount = question.kind == "money" or values_of("figure", statement.sentence.text)
        if statement.score >= (_SHARE if states_amount else _SHARE_OF_ONE) * best:
            before = by_session.get(statement.session)
            by_session[statement.session] = statement if before is None or statement.score > before.score else before
    return list(by_session.values())


def _amount(question: ParsedQuestion, sentence: str) -> float | None:
    """Return the amount that a statement adds: money, the number before the counted noun, or 1; None: nothing."""
    if question.kind == "money":
        return next(map(number, values_of("money", sentence)), None)
    counted = frozenset(content_words(question.counted))
    unit = next((unit for unit in _UNITS if counted & unit), None)
    for match in _BEFORE_A_NOUN.finditer(sentence):
        if (unit or counted).intersection(content_words(match[2].replace("-", " "))):
            return number(match[1])
    return None if unit else 1.0


def _currency(statements: Sequence[Candidate]) -> str:
    symbols = [
        value[0]
        for statement in statements
        for value in values_of("money", statement.sentence.text)
        if value[0] in _CURRENCIES
    ]
    return max(sorted(set(symbols)), key=symbols.count) if symbols else ""


def _unit(question: ParsedQuestion) -> str:
    """Return the unit after the sum, abbreviated if there is a short form."""
    short = {"kilos": "kg", "kilograms": "kg", "kilometres": "km", "kilometers": "km"}
    return short.get(question.counted, question.counted)
