"""Which of many names may stand in a text."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


class Names:
    """Names by their first words: of thousands, only those few are searched for in a text that can be there.

    Args:
        names: in the order in which they are found.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._by_word: dict[str, list[int]] = {}
        for number, name in enumerate(self._names):
            first = _WORD.search(name)
            self._by_word.setdefault(first[0].lower() if first else "", []).append(number)

    def likely(self, text: str) -> list[str]:
        """Those whose first word stands in `text`, small and capital letters alike, and those without a word."""
        words = {"", *(word.lower() for word in _WORD.findall(text))}
        return [self._names[number] for number in sorted(one for word in words for one in self._by_word.get(word, ()))]
