"""Dates, numbers, lists and names inside a gold answer: find them, rephrase them, or change them to others."""

import re
from collections.abc import Collection, Iterator
from random import Random

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS
from longmemeval.core.text.words import content_words

_SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_MONTH = "|".join(MONTHS)
_DAY_MONTH = re.compile(rf"(?<!-)\b(\d{{1,2}})(?:st|nd|rd|th)? ?({_MONTH})\b(,? \d{{4}})?")
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?!-)(,? \d{{4}})?")
_MONTH_ALONE = re.compile(rf"\b({_MONTH})\b")
_WEEKDAY = re.compile(rf"\b({'|'.join(WEEKDAYS)})(s?)\b")
_YEAR = re.compile(r"\b(19|20)(\d{2})\b")
_FIGURE = re.compile(r"(?<![\w.,:/])(\d{1,3}(?:,\d{3})+|\d+)(?![\d:/]|[.,]\d|\w)")
# Without "one", which is a pronoun as often as a number.
_WORD_NUMBER = re.compile(rf"\b({'|'.join(_SMALL[2:])})\b", re.IGNORECASE)
_WEEKS = re.compile(r"\b(\d+|one|two|three|four) (weeks?)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<![.!?] )(?<!^)(?<![\w'\"])[A-Z][a-z]{2,}(?:['\u2019-]?[A-Z]?[a-z]+)*\b")
_NAMES = re.compile(rf"{_NAME.pattern}(?: [A-Z][a-z]{{2,}}\b)*")
"""A name of several words is one match."""
_NUMERAL = re.compile(r"\d+(?:,\d{3})+|\d+(?:\.\d+)?")
_NEAREST = 2
"""Minimum distance of a wrong number from each right one: some judges must forgive being off by one."""
_LARGEST_EXACT = 2**53
"""Largest number up to which no two whole numbers are the same float."""
_ALSO_RIGHT = re.compile(
    r"\s*\((?:or|also|alternatively)\b[^()]*\)"
    r"|(?<=[.;])\s*[^.;]*\b(?:acceptable|accepted|also (?:correct|right|fine|counts?|valid))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_SEVERAL = re.compile(r"\b(?:or|either|acceptable|alternatively)\b|\w/[A-Za-z]", re.IGNORECASE)
_UNIT = re.compile(
    rf"([$£€])\s?\d|(?:\d[\d,.:]*|\b(?:{'|'.join(_SMALL[2:])}))(?:[ -]?(%|[a-z]{{1,12}}))?", re.IGNORECASE
)
_ASKED = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"\b(?:who|whom|whose)\b", "person"),
        (r"\bnames? of\b|\bcalled\b|\bnames\b", "name"),
        (r"\b(book|movie|film|series|game|song|album|band|team|shop|company|city|country|state)s?\b", ""),
        (r"\bwhere\b|\b(?:which|what) (?:places?|towns?|areas?|locations?)\b", "place"),
        (r"\bwhen\b|\b(?:which|what) (?:dates?|days?|months?|years?|time)\b", "time"),
        (r"\bhow many\b", "how many"),
        (r"\bhow much\b|\b(?:price|cost|amount)\b", "how much"),
        (r"\bhow (?:long|old|often|far)\b", "how long"),
        (r"\bwhy\b", "reason"),
        (r"\bhow\b", "manner"),
        (r"\b(?:what|which) (?:kind|type|sort)s? of (\w+)", ""),
        (r"\b(?:what|which) (?!(?:is|are|was|were|did|do|does|has|have|had|will|would|could|should|can)\b)(\w+)", ""),
    )
)
"""Patterns of what a question asks for; the first match counts, and without a name the noun is it."""
_INEXACT = re.compile(
    r"\b(?:about|above|almost|approximately|around|at (?:least|most)|below|between|fewer|less|more|nearly|over|roughly"
    r"|several|under|up to)\b|[~<>\u2248+]|\d\s*(?:-|\u2013|to)\s*\d",
    re.IGNORECASE,
)
_ASKS_FOR_ORDER = re.compile(
    r"\b(?:after|arrange\w*|ascending|before|chronolog\w*|descending|earlier|earliest|first|last|later|latest|newest"
    r"|oldest|order\w*|rank\w*|sequence|sort(?:ed)?|steps?|then|timeline)\b",
    re.IGNORECASE,
)
_ASKS_FOR_VALUE = re.compile(
    r"\b(?:age|amount|date|day|how|many|month|much|number|old|percent\w*|price|time|when|year)\b", re.IGNORECASE
)
_SHORT = 3
"""Maximum words of a text that is a value alone, whatever the question."""
_ITEMS = re.compile(r",\s*(?:and\s+)?")
_LAST_ITEM = re.compile(r"(?<=,)(\s*\S+(?: \S+)?)\s+and\s+(?=\S+(?: \S+)?$)")
"""The last `and` in `a, b and c`; with more than two words, `and` may be inside an item."""
_NO_ITEM = re.compile(r"(?:at|by|for|from|in|of|on|to|with)\b|.*\band\b", re.IGNORECASE)


def is_date(text: str) -> bool:
    """Return whether a text names a day, a month or a year."""
    return any(found.search(text) for found in (_MONTH_ALONE, _WEEKDAY, _YEAR))


def is_number(text: str) -> bool:
    """Return whether a text has a number that is not a date."""
    return not is_date(text) and bool(_FIGURE.search(text) or _WORD_NUMBER.search(text))


def polarity_of(text: str) -> str:
    """Return `yes` or `no` if the text begins with it, else an empty string."""
    match = re.match(r"(yes|no)\b", text, re.IGNORECASE)
    return match[1].lower() if match else ""


def kind_of(text: str) -> str:
    """Return the kind of answer a text is: a judge most easily mistakes it for another of the same kind."""
    if polarity_of(text):
        return "polarity"
    return "date" if is_date(text) else "number" if is_number(text) else "text"


def unit_of(text: str) -> str:
    """Return the unit of the number of a text: its currency or the word after it; empty for a bare number."""
    match = _UNIT.search(text)
    return (match[1] or match[2] or "").lower().rstrip("s") if match else ""


def asked_for(question: str) -> str:
    """Return what a question asks for, such as `person`, `place` or `how many`; two that ask for one have like answers.

    "Which book …" asks for a `book`, and "what did …" for a `thing`.
    """
    for pattern, kind in _ASKED:
        if match := pattern.search(question):
            return kind or (content_words(match[match.lastindex or 0]) or ["thing"])[0]
    return "thing"


def other_forms(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text with one date, number or unit in another form, and the change."""
    if match := _DAY_MONTH.search(text):
        year = (match[3] or "").strip(" ,")
        yield _replaced(text, match, f"{match[2]} {match[1]}" + (f", {year}" if year else ""))
    elif match := _MONTH_DAY.search(text):
        year = (match[3] or "").strip(" ,")
        yield _replaced(text, match, f"{match[2]} {match[1]}" + (f" {year}" if year else ""))
    elif not is_date(text) and (match := _WEEKS.search(text)):
        count = _SMALL.index(match[1].lower()) if match[1].lower() in _SMALL else int(match[1])
        yield _replaced(text, match, f"{7 * count} days")
    elif not is_date(text) and (match := _WORD_NUMBER.search(text)):
        yield _replaced(text, match, str(_SMALL.index(match[1].lower())))
    elif not is_date(text) and (match := _FIGURE.search(text)) and match[1].isdigit() and int(match[1]) < len(_SMALL):
        yield _replaced(text, match, _SMALL[int(match[1])])


def stated(gold: str) -> str:
    """Return a gold without its remarks to the grader on what else is right."""
    return _ALSO_RIGHT.sub("", gold).strip()


def names_several(text: str) -> bool:
    """Return whether a text may name more than one right answer: if one is changed, another may still be there."""
    return bool(_SEVERAL.search(text))


def numbers_in(text: str) -> set[float]:
    """Return all numbers of a text, as figures or words."""
    figures = {float(match[0].replace(",", "")) for match in _NUMERAL.finditer(text)}
    return figures | {float(_SMALL.index(match[1].lower())) for match in _WORD_NUMBER.finditer(text)}


def amounts_in(text: str) -> set[float]:
    """Return all numbers of a text, and its weeks in days."""
    weeks = (match[1].lower() for match in _WEEKS.finditer(text))
    return numbers_in(text) | {7.0 * (_SMALL.index(number) if number in _SMALL else int(number)) for number in weeks}


def near(first: Collection[float], second: Collection[float]) -> bool:
    """Return whether a number of one text may pass for a number of another."""
    return any(abs(number - other) < _NEAREST for number in first for other in second)


def reordered(text: str, question: str) -> str | None:
    """Return a list of at least three items in another order; None if the text is not one, or the order may matter."""
    if _ASKS_FOR_ORDER.search(question):
        return None
    if re.search(r"\b(?:then|first|before|after|finally|because|but|which|who)\b|[.:;]\s|\s-\s", text, re.IGNORECASE):
        return None
    items = [item.strip(" .") for item in _ITEMS.split(_LAST_ITEM.sub(r"\1, ", text.rstrip(" .")))]
    if len(items) < 3 or not all(item and len(item.split()) <= 4 for item in items) or is_date(text):
        return None
    if any(map(_NO_ITEM.match, items)):
        return None
    *head, last = reversed(items)
    return f"{', '.join(head)} and {last}"


def with_other_number(text: str, right: Collection[float], random: Random) -> tuple[str, str] | None:
    """Return the text with its one number changed; None if it is a date, or has no number, several, or no exact one.

    Args:
        text: the text to change.
        right: numbers that the new one must not come near, in addition to that of the text.
        random: source of randomness.
    """
    if is_date(text) or len(numbers_in(text)) != 1 or _INEXACT.search(text):
        return None
    right = {*right, *numbers_in(text)}
    if match := _FIGURE.search(text):
        value = int(match[1].replace(",", ""))
        if value > _LARGEST_EXACT:
            return None
        spread = max(3, round(0.4 * value))
        others = range(value + _NEAREST, value + _NEAREST + spread)
        rivals = [number for number in right if value < number < others.stop + _NEAREST]
        free = [other for other in others if not near({other}, rivals)] if rivals else others
        new = random.choice(free) if free else 0
        return _replaced(text, match, f"{new:,}" if "," in match[1] else str(new)) if free else None
    if match := _WORD_NUMBER.search(text):
        words = [word for place, word in enumerate(_SMALL[2:], 2) if not near({place}, right)]
        return _replaced(text, match, random.choice(words)) if words else None
    return None


def asks_for_value(question: str, text: str) -> bool:
    """Return whether a question asks for the number or date of its answer, or the answer is hardly more than that."""
    return len(text.split()) <= _SHORT or bool(_ASKS_FOR_VALUE.search(question))


def with_other_date(text: str, random: Random) -> tuple[str, str] | None:
    """Return the text with another day, month or year; None if it names no date."""
    if match := _MONTH_ALONE.search(text):
        return _replaced(text, match, random.choice([month for month in MONTHS if month not in text]))
    if match := _WEEKDAY.search(text):
        return _replaced(text, match, random.choice([day for day in WEEKDAYS if day not in text]) + match[2])
    if match := _YEAR.search(text):
        return _replaced(text, match, str(int(match[0]) + random.choice([-4, -3, 3, 4])))
    return None


def person_names(text: str, not_names: Collection[str] = ()) -> list[str]:
    """Return the capitalised words that do not begin a sentence; words of one name are joined.

    Args:
        text: text to search.
        not_names: words, in lower case, that are not names, such as those that a data set also writes in lower case.
    """
    names = []
    for match in _NAMES.finditer(text):
        name = re.sub(r"['\u2019]s$", "", match[0])
        if all(_may_be_a_name(word, not_names) for word in name.split()):
            names.append(_begun(text[: match.start()], not_names) + name)
    return names


def _begun(before: str, not_names: Collection[str]) -> str:
    """Return the words of a name that begin its text: "Second" of "Second Wind", "House of" of "House of Wax"."""
    match = re.search(r"(?:\b[A-Z][\w'-]+ (?:of |the |and )*)+$", before)
    words = match[0].split(" ") if match else []
    # A text of capitalised words alone is a title, whatever words it is made of.
    title = all(word.strip('"\u201c')[:1].isupper() or word in ("of", "the", "and") for word in before.split())
    while words and words[0] != "The" and not (title and content_words(words[0])):
        if _may_be_a_name(words[0], not_names):
            break
        words.pop(0)
    return " ".join(words)


def _may_be_a_name(word: str, not_names: Collection[str]) -> bool:
    return not is_date(word) and bool(content_words(word)) and word.lower() not in not_names


def with_other_name(
    text: str, others: Collection[str], random: Random, not_names: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return the text with one name changed to one of `others` without a common word; None without either."""
    names = person_names(text, not_names)
    free = [name for name in others if not set(content_words(name)) & set(content_words(text))]
    if not names or not free:
        return None
    new = random.choice(free)
    return text.replace(names[0], new), f"{names[0]} -> {new}"


def with_other_polarity(text: str) -> tuple[str, str] | None:
    """Return `Yes, she does` as `No.`; None if the text does not begin with yes or no."""
    polarity = polarity_of(text)
    return {"yes": ("No.", "yes -> no"), "no": ("Yes.", "no -> yes")}.get(polarity)


def _replaced(text: str, match: re.Match[str], new: str) -> tuple[str, str]:
    if match[0][:1].isupper() and new[:1].islower() and match.start() == 0:
        new = new.capitalize()
    return text[: match.start()] + new + text[match.end() :], f"{match[0]} -> {new}"
