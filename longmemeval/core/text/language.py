"""Recognise texts in another language than English, as far as letters and function words show it."""

import re

_LONGEST = 600
"""Characters of a text that are read."""
_LAST_LATIN = "\u024f"
_SHARE = 0.3
"""Share of letters of another script that makes a text foreign; less is a quoted word."""
_FEWEST = 2
"""Foreign words that make a short text foreign; one does if there are `_SENTENCE` words and none is English."""
_SENTENCE = 4
_IN_NAMES = frozenset({"la", "le", "les", "los", "las", "el", "van", "den", "des", "di", "del", "della"})
_WORD = re.compile(r"[^\W\d_]+")
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
    words = _WORD.findall(text)
    foreign, english = (len(known.intersection(words)) for known in (_FOREIGN, _ENGLISH))
    if not english and len(words) >= _SENTENCE and any(word in _FOREIGN - _IN_NAMES for word in words):
        return True
    # A name may have an accent; beside a foreign word it is another sign.
    foreign += bool(foreign and letters and _ACCENT.search(text))
    return foreign >= _FEWEST and foreign > english
