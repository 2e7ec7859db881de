"""The content of a gold answer: its acceptable forms, the items of its list, its yes or no, its option."""

import re

from longmemeval.core.text.quantities import MONTHS, plain_quantities
from longmemeval.core.text.words import content_words

_COUNTS = re.compile(r"\bhow (?:many|much|long|old|often)\b|\bnumber of\b|\bamount\b|\btotal\b|\bwhen\b|\bdate\b", re.I)
_EXPLANATION = re.compile(
    r"\s*(?::(?!\d)|[;(]|\.\s"
    r"|,? (?:which|because|since|so|after|when|while|instead of|rather than|up from|down from|as opposed to)\b).*",
    re.DOTALL,
)
_SAME: tuple[tuple[str, int, str], ...] = (
    ("weeks?", 7, "days"),
    ("years?", 12, "months"),
    ("hours?", 60, "minutes"),
    ("days?", 24, "hours"),
)
"""Triples of a unit, its size in a smaller unit, and that smaller unit."""
_ITEMS = re.compile(r",\s*(?:and\s+|then\s+|and then\s+)?|\s+and\s+(?:then\s+)?|\n+")
_POLARITY = re.compile(r"^\W*(?:(?:so|therefore|thus|hence),? )?(yes|yeah|no|nope|not yet)\b", re.IGNORECASE)
_MONTHS = [month.lower() for month in MONTHS]
_DATE = re.compile(rf"\b({'|'.join(_MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)\b(?:,? (\d{{4}}))?")
_FIGURES = re.compile(r"(?<![\d/.-])(\d{1,2})(?:(/)|\.(?=\d{1,2}\.))(\d{1,2})(?:[/.]((?:\d\d)?\d\d)?)?(?![\d/])")
LONGEST_ITEM = 6
"""Maximum words of an item of a list."""
LONGEST_STEP = 15
"""Maximum words of an item if the question asks for an order."""


def forms_of(question: str, gold: str) -> list[str]:
    """Return the forms of a gold answer: itself, itself without remarks, and the alternatives it names.

    Two ways to name them occur: "25:50 (or 25 minutes and 50 seconds)" and "7 days. 8 days (…) is also acceptable."
    Explanations of a count ("five items: …", "$1,200, up from …") are left out; an amount in one unit is also given in
    others.
    """
    plain = re.sub(r"\([^)]*\)", "", gold)
    forms = [gold, plain, *re.findall(r"\(or ([^)]*)\)", gold)]
    forms += [re.sub(r",.*", "", form) for form in forms[2:]]
    if "acceptable" in plain:
        forms += re.split(r"\.\s|\s+(?:is|are)\s+(?:also )?acceptable", plain)
    if "," in plain or ";" in plain or " after " in plain or _COUNTS.search(question):
        short = _EXPLANATION.sub("", plain)
        if _COUNTS.search(question) or not re.search(r":", plain):
            forms.append(short)
    for form in tuple(forms):
        forms += _in_other_units(form)
    return [form for form in dict.fromkeys(forms) if re.search(r"\w", form)] or [gold]


def _in_other_units(form: str) -> list[str]:
    text = plain_quantities(form)
    forms = []
    for unit, factor, smaller in _SAME:
        if match := re.fullmatch(rf"\W*(\d+(?:\.\d+)?) {unit}\W*", text):
            forms.append(f"{float(match[1]) * factor:g} {smaller}")
        if (match := re.fullmatch(rf"\W*(\d+) {smaller[:-1]}s?\W*", text)) and int(match[1]) % factor == 0:
            forms.append(f"{int(match[1]) // factor} {unit[:-2]}s")
        if match and int(match[1]) % factor * 2 == factor:
            forms.append(f"{int(match[1]) / factor:g} {unit[:-2]}s")
    return forms


def with_date_of(gold: str, answer: str) -> str:
    """Return the answer with the gold's date written out where it has it in figures, the day or the month first."""
    date = _DATE.search(plain_quantities(gold))
    if not date or not _FIGURES.search(answer):
        return answer
    day, month, year = int(date[2]), _MONTHS.index(date[1]) + 1, date[3] or ""

    def written(match: re.Match[str]) -> str:
        same = (int(match[1]), int(match[3])) in ((day, month), (month, day))
        other_year = match[4] and year and match[4][-2:] != year[-2:]
        return f"{date[1]} {day} {match[4] or ''}" if same and not other_year else match[0]

    return _FIGURES.sub(written, answer)


def items_of(gold: str, longest: int = LONGEST_ITEM) -> list[str]:
    """Return the items of a list, in order; none for a text with items of more than `longest` words."""
    plain = re.sub(r"\([^)]*\)", "", gold.rstrip(". "))
    plain = plain.rpartition(":")[2] if re.search(r":\s", plain) else plain
    items = [item for item in _ITEMS.split(plain) if re.search(r"\w", item)]
    return items if all(len(item.split()) <= longest for item in items) else []


def names_in(gold: str) -> list[str]:
    """Return the capitalised words of a gold answer within sentences: they carry the most weight."""
    return re.findall(r"(?<![.!?:] )(?<!^)(?<![\w'\"])[A-Z]\w+", gold)


def polarity_of(text: str) -> str:
    """Return `yes` or `no` if the text begins with it, else an empty string."""
    match = _POLARITY.match(text.lstrip("*_# "))
    return {"y": "yes", "n": "no"}[match[1][0].lower()] if match else ""


def options_of(question: str, gold: str) -> tuple[set[str], set[str]] | None:
    """Return the content words of the right option and of the other one; None unless two are offered."""
    before, separator, after = question.rpartition(" or ")
    if not separator:
        return None
    second = re.split(r"[?,.;:]", after)[0]
    first = " ".join(re.split(r"[?,.;:]", before.rstrip(", "))[-1].split()[-len(second.split()) - 1 :])
    options = set(content_words(first)), set(content_words(second))
    answer = set(content_words(gold))
    alone = options[0] - options[1], options[1] - options[0]
    held = [len(answer & own) / len(own) if own else 0.0 for own in alone]
    if held[0] == held[1] or not all(alone):
        return None
    return alone if held[0] > held[1] else alone[::-1]
