"""Comparison of the words of an answer with those of a gold answer, for the rules of `lexical.py`."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.text.quantities import MONTHS, plain_quantities
from longmemeval.core.text.words import content_words
from longmemeval.judges.offline.refusal import conclusion
from longmemeval.judges.offline.rules import Verdict

# The content of a gold answer: its acceptable forms, the items of its list, its yes or no, its option.

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


def capitalised_names(gold: str) -> list[str]:
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


RULES_FILE = Path(__file__).with_name("lexical_rules.json")
MINIMUM_RECALL = 0.6

_ARTICLES = frozenset({"a", "an", "the"})
_COUNTED_NOUN = re.compile(r"\bhow many (\w+)")
_CLOCK = re.compile(r"\bwhat time\b|\bwhen\b")
_HALVES = {"am", "pm"}
_IN_ORDER = re.compile(r"\border\b|\bearliest\b|\bfirst to last\b|\bchronolog|\bsequence\b")


class LexicalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The word lists of `lexical_rules.json`."""

    version: int
    """Version, raised when the code reads answers in another way, which gives the judge another identity."""
    empty_words: frozenset[str]
    """Words of gold answers that prove nothing."""
    units: frozenset[str]
    """Words that, after a number, show that it counts something else: "3 months" are not 3 rings."""
    rubric_words: frozenset[str]
    """Words that every rubric has, and words without content: they prove nothing."""


def normalise(text: str) -> list[str]:
    """Return the normalised words of `text`. Articles are dropped unless there is nothing else (a grade "A")."""
    return list(_normalised(text))


@lru_cache(maxsize=1 << 12)
def _normalised(text: str) -> tuple[str, ...]:
    """Return `normalise(text)`, cached: grading, checking and tables read the same answers and golds."""
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text = text.lower().replace("\u2019", "'").replace("cannot", "can not").replace("can't", "can not")
    text = text.replace("won't", "will not").replace("n't", " not").replace("'", "")
    words = re.findall(r"\d+(?:[.:]\d+)+|\w+", plain_quantities(text))
    return tuple(word for word in words if word not in _ARTICLES) or tuple(words)


class Comparison:
    """Comparison of forms of a gold answer with one answer.

    Args:
        question: its words prove nothing.
        words: the words of the answer that count.
        asserted: the words of its conclusion.
        near: allowed difference of a number from that of the gold.
    """

    def __init__(self, question: str, words: Sequence[str], asserted: Sequence[str], near: int) -> None:
        self._words, self._near = words, near
        self._ordered = bool(_IN_ORDER.search(question.lower()))
        self._longest = LONGEST_STEP if self._ordered else LONGEST_ITEM
        question_words = normalise(question)
        self._question_stems, self._question_numbers, self._stems = (
            set(stems_of(question_words)),
            _numbers(question_words),
            stems_of(words),
        )
        self._held = set(self._stems)
        self._halves = _halves(words)
        self._asserted = asserted if _numbers(asserted) else words
        self._nouns = _nouns_of(question.lower())

    def verdict(self, form: str) -> Verdict:
        """Return whether the answer gives this form of the gold, and by which rule."""
        sought = normalise(form)
        if not self._has_numbers(sought):
            return Verdict(False, "another number, or none")
        if self._halves and (half := _halves(sought)) and not half & self._halves:
            return Verdict(False, "the other half of the day")
        if contains(self._words, sought):
            return Verdict(True, "contains the answer")
        items = [stems for item in items_of(form, self._longest) if (stems := set(stems_of(normalise(item))))]
        if len(items) > 1:
            missing = sum(len(stems & self._held) / len(stems) < 0.5 for stems in items)
            if missing or not self._in_order(items):
                return Verdict(False, f"{missing} of {len(items)} items missing" if missing else "another order")
        stems = set(stems_of(sought))
        own = stems - self._question_stems or (set() if _numbers(sought) else stems)
        if not own:
            return Verdict(bool(_numbers(sought)), "holds the number")
        names = own & set(stems_of(normalise(" ".join(capitalised_names(form)))))
        recall = (len(own & self._held) + len(names & self._held)) / (len(own) + len(names))
        return Verdict(recall >= MINIMUM_RECALL, f"recall {recall:.2f}")

    def _has_numbers(self, sought: Sequence[str]) -> bool:
        every = _numbers(sought)
        wanted = {number for number in every if number.rstrip("stndrh") not in self._question_numbers}
        if not wanted and not set(stems_of(sought)) - self._question_stems:
            wanted = every
        if set(sought).intersection(_MONTHS):
            wanted = {number for number in wanted if not re.fullmatch(r"(?:19|20)\d\d", number)}
        units = {word for number, word in pairwise(sought) if number in wanted} | self._nouns
        held = {
            number
            for number, word in pairwise([*self._asserted, ""])
            if number[0].isdigit()
            and (
                word in units
                or f"{word}s" in units
                or word.removesuffix("s") in units
                or word not in lexical_rules().units
            )
        }
        if len(wanted) == 1 and self._near and (number := next(iter(wanted))).isdigit():
            return any(str(int(number) + step) in held for step in range(-self._near, self._near + 1))
        return wanted <= held

    def _in_order(self, items: Sequence[set[str]]) -> bool:
        if not self._ordered:
            return True
        places = [min(place for place, stem in enumerate(self._stems) if stem in stems) for stems in items]
        return places == sorted(places)


def _nouns_of(question: str) -> set[str]:
    """Return what a number that answers the question may count, beside the units of the gold."""
    nouns = {noun[1]} if (noun := _COUNTED_NOUN.search(question)) else set()
    return nouns | ({"years"} if "how old" in question else set()) | (_HALVES if _CLOCK.search(question) else set())


def stems_of(words: Sequence[str]) -> list[str]:
    """Return the stems of content words in order, without numbers and words that prove nothing."""
    empty = _empty_stems()
    return [stem for stem in content_words(" ".join(words)) if not stem[0].isdigit() and stem not in empty]


def _numbers(words: Sequence[str]) -> set[str]:
    return {word for word in words if word[0].isdigit()}


def contains(words: Sequence[str], sought: Sequence[str]) -> bool:
    """Return whether `sought`, which is not empty, is a contiguous part of `words`."""
    return bool(sought) and f" {' '.join(sought)} " in f" {' '.join(words)} "


def _halves(words: Sequence[str]) -> set[str]:
    """Return which halves of the day, am or pm, the times among `words` are in."""
    return {word for number, word in pairwise(words) if number[0].isdigit() and word in ("am", "pm")}


@cache
def _empty_stems() -> frozenset[str]:
    return frozenset(content_words(" ".join(lexical_rules().empty_words)))


@cache
def lexical_rules() -> LexicalRules:
    """Return the word lists of the rules."""
    return msgspec.json.decode(RULES_FILE.read_bytes(), type=LexicalRules)


# The parts of an answer that count for the rules of `lexical.py`: its beginning and end, not all it repeats.

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
