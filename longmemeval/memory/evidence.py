"""Whether the words that prove what somebody made of a session really stand in it, and where."""

import re
from collections.abc import Iterable

_MARKS = str.maketrans(
    {
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{NO-BREAK SPACE}": " ",
    }
)
MIN_CHARACTERS = 3
"""Of the shortest quotation that proves anything."""


def plain(text: str) -> str:
    """`text` as quotations are compared: single spaces, straight marks, small letters."""
    return " ".join(text.translate(_MARKS).casefold().split())


class Evidence:
    """The turns of one session, to look quotations up in.

    Args:
        messages: ids and texts.
    """

    def __init__(self, messages: Iterable[tuple[str, str]]) -> None:
        self._messages = [(message_id, plain(text)) for message_id, text in messages]

    def message_ids(self, quotation: str) -> tuple[str, ...]:
        """The messages that hold `quotation`; none: nobody said it.

        It may run over two turns only by an ellipsis ("…" or "..."): each piece must then stand somewhere.
        """
        pieces = [plain(piece).strip("\"' ") for piece in re.split(r"\.\.\.|…", quotation)]
        pieces = [piece for piece in pieces if len(piece) >= MIN_CHARACTERS]
        found = [[one for one, text in self._messages if piece in text] for piece in pieces]
        if not found or not all(found):
            return ()
        return tuple(dict.fromkeys(ids[0] for ids in found))
