"""Words of English texts for lexical matching: no stop words, and one stem for all forms of a word."""

import re
from functools import lru_cache

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
_VOWEL = re.compile(r"[aeiouy]")


def content_words(text: str) -> list[str]:
    """Return the stems of the words of `text` in order, case folded, without possessive endings and stop words."""
    return [stemmed for stemmed in map(_content_stem, _WORD.findall(text.replace("\u2019", "'").casefold())) if stemmed]


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
