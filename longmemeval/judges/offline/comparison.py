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
from longmemeval.judges.offline.gold_forms import LONGEST_ITEM, LONGEST_STEP, items_of, names_in
from longmemeval.judges.offline.rules import Verdict

RULES_FILE = Path(__file__).with_name("lexical_rules.json")
MINIMUM_RECALL = 0.6

_ARTICLES = frozenset({"a", "an", "the"})
_MONTHS = frozenset(month.lower() for month in MONTHS)
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
        names = own & set(stems_of(normalise(" ".join(names_in(form)))))
        recall = (len(own & self._held) + len(names & self._held)) / (len(own) + len(names))
        return Verdict(recall >= MINIMUM_RECALL, f"recall {recall:.2f}")

    def _has_numbers(self, sought: Sequence[str]) -> bool:
        every = _numbers(sought)
        wanted = {number for number in every if number.rstrip("stndrh") not in self._question_numbers}
        if not wanted and not set(stems_of(sought)) - self._question_stems:
            wanted = every
        if _MONTHS & set(sought):
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
