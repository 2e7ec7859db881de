"""Words of English texts for lexical matching: no stop words, and one stem for all forms of a word."""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

_WORD = re.compile(r"\w+(?:'\w+)?")
_STOP_WORDS = frozenset(
    _WORD.findall(
        """
        a about after again all also am an and any are as at be because been before being between both but by can
        conversation could did do does doing don during each even ever few for from further get got had has have having
        he her here hers him his how i if in into is it its just last many me mention mentioned more most much my no nor
        not now of off on once only or other our ours out over own please recently recommend recommended remind said
        same say she should so some such suggest suggested tell than that the their them then there these they this
        those through to told too under until up us very was we were what when where which while who whom whose why
        will with would you your yours
        """
    )
)
_IRREGULAR_FORMS = """
    ate eaten eat, began begun begin, bought buy, broke broken break, brought bring, built build, came come,
    caught catch, chose chosen choose, drank drunk drink, drew drawn draw, drove driven drive, fell fallen fall,
    felt feel, flew flown fly, forgot forgotten forget, found find, gave given give, went gone go, grew grown grow,
    heard hear, held hold, hung hang, kept keep, knew known know, learnt learn, led lead, left leave, lent lend,
    lost lose, made make, met meet, paid pay, ran run, rode ridden ride, sang sung sing, sat sit, saw seen see,
    sent send, slept sleep, sold sell, spent spend, spoke spoken speak, swam swum swim, taught teach,
    thought think, took taken take, wore worn wear, won win, wrote written write,
    children child, feet foot, men man, people person, women woman
"""
IRREGULAR = {form: base for *forms, base in map(str.split, _IRREGULAR_FORMS.split(",")) for form in forms}
"""Map of common irregular forms to their base."""
_Y_INFLECTED = re.compile(r"(?<=\w\w)ie[sd]$")
_PLURAL = re.compile(r"(?<=[sxzo])es$|(?<=[cs]h)es$|(?<=\w\w[^isu])s$")
_PAST_OR_PROGRESSIVE = re.compile(r"(?<=\w\w)(?:(?<!e)ed|ing)$")
_LAST_LETTER_DOUBLED = re.compile(r"([a-z])\1$")
_UNSPACED = re.compile(
    r"([\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+)"
)
"""A run of Chinese characters, hiragana or katakana."""
_VOWEL = re.compile(r"[aeiouy]")


def content_words(text: str) -> list[str]:
    """Return the stems of the words of `text` in order, case folded, without possessive endings and stop words."""
    return [stemmed for stemmed in map(_content_stem, _WORD.findall(text.replace("\u2019", "'").casefold())) if stemmed]


def search_words(text: str) -> list[str]:
    """Return the words by which a text is found: content words, with Chinese and Japanese as pairs of characters.

    Neither language puts blanks between words. Overlapping pairs, as in Lucene's `CJKBigramFilter`, find a word of two
    characters anywhere in a run; a character that stands alone is a word.
    """
    words = content_words(text)
    return words if text.isascii() else [piece for word in words for piece in _pieces(word)]


def _pieces(word: str) -> list[str]:
    if not _UNSPACED.search(word):
        return [word]
    runs = [run for run in _UNSPACED.split(word) if run]
    return [pair for run in runs for pair in ([run] if not _UNSPACED.match(run) or len(run) < 2 else _pairs(run))]


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def is_unspaced(text: str) -> bool:
    """Return whether a text has Chinese or Japanese characters."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def stem(word: str) -> str:
    """Return the common part of the forms of a lower-case English word: `graduat` for graduate and graduated.

    Plural, past and progressive endings are removed, then a final e; a final y becomes i, and a doubled last letter
    becomes single, so that study and studies, knit and knitted agree. Common irregular forms come from a table.
    """
    word = IRREGULAR.get(word, word)
    if len(word) < 3:
        return word
    word = _PLURAL.sub("", _Y_INFLECTED.sub("y", word))
    root = _PAST_OR_PROGRESSIVE.sub("", word)
    word = root if _VOWEL.search(root) else word
    return _LAST_LETTER_DOUBLED.sub(r"\1", re.sub("y$", "i", word.removesuffix("e")))


@lru_cache(maxsize=1 << 16)
def _content_stem(word: str) -> str:
    """Return the stem of a content word, an empty string for a stop word."""
    return "" if word.split("'")[0] in _STOP_WORDS else stem(word.removesuffix("'s"))


# Recognise texts in another language than English, as far as letters and function words show it.

_LONGEST = 600
"""Characters of a text that are read."""
_LAST_LATIN = "\u024f"
_SHARE = 0.3
"""Share of letters of another script that makes a text foreign; less is a quoted word."""
_FEWEST = 2
"""Foreign words that make a short text foreign; one does if there are `_SENTENCE` words and none is English."""
_SENTENCE = 4
_IN_NAMES = frozenset({"la", "le", "les", "los", "las", "el", "van", "den", "des", "di", "del", "della"})
_LETTERS = re.compile(r"[^\W\d_]+")
_ACCENT = re.compile(r"[äöüßéèêàâçñãõåøæœ¿¡]")
_ENGLISH = frozenset(
    re.findall(
        r"\w+",
        """
        a about and at be but by can did do for from had has have i in is it my not of on that the they this to was we
        were what when where which who will with you your
        """,
    )
)
_FOREIGN = frozenset(
    re.findall(
        r"\w+",
        """
        der das und ist nicht ein eine einen einem einer mit auf für von den dem im zu ich du sie er wir hat haben habe
        nach bei oder aber auch wie viel wo wann welche welcher wurde mein meine dein deine ihr het een van niet voor je
        jij ik le la les des une est et que pour dans avec sur pas vous votre au du el los las y con por su del una gli
        che per non di della sono um uma não com você seu sua os ao quel quelle combien dónde cuánto
        """,
    )
)
"""Frequent words of the large languages of Western Europe that no English text has."""


def is_foreign(text: str) -> bool:
    """Return whether a text is recognisably not English; False for names, numbers, and what is too short to tell."""
    text = text[:_LONGEST].lower()
    letters = [letter for letter in text if letter.isalpha()] if not text.isascii() else []
    if letters and sum(letter > _LAST_LATIN for letter in letters) >= _SHARE * len(letters):
        return True
    words = _LETTERS.findall(text)
    foreign, english = (len(known.intersection(words)) for known in (_FOREIGN, _ENGLISH))
    if not english and len(words) >= _SENTENCE and any(word in _FOREIGN - _IN_NAMES for word in words):
        return True
    # A name may have an accent; beside a foreign word it is another sign.
    foreign += bool(foreign and letters and _ACCENT.search(text))
    return foreign >= _FEWEST and foreign > english


# What differs between two records of settings.


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    prefix: str = "",
    *,
    template: str = "was {old!r}, now {new!r}",
) -> list[str]:
    """Return the differences of two settings, one sentence each: `reading.method: was 'con', now 'direct'`."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found.extend(differences(old, new, f"{prefix}{key}.", template=template))
        elif isinstance(old or new, Mapping) and old != new and not (old and new):
            found.extend(differences(old or {}, new or {}, f"{prefix}{key}.", template=template))
        elif old != new:
            shown = {"old": _NOT_SET if old is None else old, "new": _NOT_SET if new is None else new}
            found.append(f"{prefix}{key}: {template.format(**shown)}")
    return found


class _NotSet:
    """Placeholder for a setting that is absent."""

    def __repr__(self) -> str:
        return "not set"


_NOT_SET = _NotSet()
