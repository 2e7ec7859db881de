"""Finding which of many names a text may contain."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


class Names:
    """Names indexed by their first words: of thousands, only the few possible ones are searched for in a text.

    Args:
        names: names in the order in which results list them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._by_word: dict[str, list[int]] = {}
        for number, name in enumerate(self._names):
            first = _WORD.search(name)
            self._by_word.setdefault(first[0].lower() if first else "", []).append(number)

    def likely(self, text: str) -> list[str]:
        """Return the names whose first word is in `text`, ignoring case, and those without a word."""
        words = {"", *(word.lower() for word in _WORD.findall(text))}
        return [
            self._names[number] for number in sorted(place for word in words for place in self._by_word.get(word, ()))
        ]
