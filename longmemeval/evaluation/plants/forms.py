"""Dates, numbers, lists and names inside a gold answer: found, and said in another way or changed to something else."""

import re
from collections.abc import Iterator
from random import Random

from longmemeval.text.calendar_names import MONTHS, WEEKDAYS

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
_NOT_NAMES = {*MONTHS, *WEEKDAYS, "The", "She", "His", "Her", "They", "Because"}
_ITEMS = re.compile(r",\s*(?:and\s+)?|\s+and\s+")


def is_date(text: str) -> bool:
    """Whether a text names a day, a month or a year."""
    return any(found.search(text) for found in (_MONTH_ALONE, _WEEKDAY, _YEAR))


def is_number(text: str) -> bool:
    """Whether a text holds a number that is no date."""
    return not is_date(text) and bool(_FIGURE.search(text) or _WORD_NUMBER.search(text))


def polarity_of(text: str) -> str:
    """`yes` or `no` where the text begins with it, else nothing."""
    match = re.match(r"(yes|no)\b", text, re.IGNORECASE)
    return match[1].lower() if match else ""


def kind_of(text: str) -> str:
    """What sort of answer a text is: another of the same sort is taken for it most easily."""
    if polarity_of(text):
        return "polarity"
    return "date" if is_date(text) else "number" if is_number(text) else "text"


def other_forms(text: str) -> Iterator[tuple[str, str]]:
    """The text with one date, number or unit said in another way, and what was done."""
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


def reordered(text: str) -> str | None:
    """A list of at least three items in another order; None where the text is none, or the order may matter."""
    if re.search(r"\b(?:then|first|before|after|finally|because|but|which|who)\b|[.:;]\s", text, re.IGNORECASE):
        return None
    items = [item.strip(" .") for item in _ITEMS.split(text)]
    if len(items) < 3 or not all(item and len(item.split()) <= 4 for item in items) or is_date(text):
        return None
    *head, last = reversed(items)
    return f"{', '.join(head)} and {last}"


def with_other_number(text: str, random: Random) -> tuple[str, str] | None:
    """The text with one number changed to one it does not hold; None where it holds no number or is a date."""
    if is_date(text):
        return None
    held = {match[1].replace(",", "") for match in _FIGURE.finditer(text)}
    held |= {str(_SMALL.index(match[1].lower())) for match in _WORD_NUMBER.finditer(text)}
    if match := _FIGURE.search(text):
        value = int(match[1].replace(",", ""))
        spread = max(3, round(0.4 * value))
        new = random.choice([one for one in range(value + 2, value + 2 + spread) if str(one) not in held])
        return _replaced(text, match, f"{new:,}" if "," in match[1] else str(new))
    if match := _WORD_NUMBER.search(text):
        new_word = random.choice([word for place, word in enumerate(_SMALL[2:], 2) if str(place) not in held])
        return _replaced(text, match, new_word)
    return None


def with_other_date(text: str, random: Random) -> tuple[str, str] | None:
    """The text with another day, month or year; None where it names none."""
    if match := _MONTH_ALONE.search(text):
        return _replaced(text, match, random.choice([month for month in MONTHS if month not in text]))
    if match := _WEEKDAY.search(text):
        return _replaced(text, match, random.choice([day for day in WEEKDAYS if day not in text]) + match[2])
    if match := _YEAR.search(text):
        return _replaced(text, match, str(int(match[0]) + random.choice([-4, -3, 3, 4])))
    return None


def names_in(text: str) -> list[str]:
    """Capitalised words that do not begin a sentence."""
    names = (re.sub(r"['\u2019]s$", "", match[0]) for match in _NAME.finditer(text))
    return [name for name in names if name not in _NOT_NAMES]


def with_other_name(text: str, others: list[str], random: Random) -> tuple[str, str] | None:
    """The text with one name changed to one of `others` that it does not hold; None without either."""
    found = names_in(text)
    free = [name for name in others if name.casefold() not in text.casefold()]
    if not found or not free:
        return None
    new = random.choice(free)
    return text.replace(found[0], new), f"{found[0]} -> {new}"


def with_other_polarity(text: str) -> tuple[str, str] | None:
    """`Yes, she does` as `No.`; None where the text does not begin with yes or no."""
    polarity = polarity_of(text)
    return {"yes": ("No.", "yes -> no"), "no": ("Yes.", "no -> yes")}.get(polarity)


def _replaced(text: str, match: re.Match[str], new: str) -> tuple[str, str]:
    if match[0][:1].isupper() and new[:1].islower() and match.start() == 0:
        new = new.capitalize()
    return text[: match.start()] + new + text[match.end() :], f"{match[0]} -> {new}"
