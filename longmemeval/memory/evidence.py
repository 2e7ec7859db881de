"""Find the messages of a session that contain the quotations given as evidence."""

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
"""Minimum characters of a quotation that counts as evidence."""


def plain(text: str) -> str:
    """Return `text` normalised for comparing quotations: single spaces, straight quotes, lower case."""
    return " ".join(text.translate(_MARKS).casefold().split())


class Evidence:
    """The turns of one session, in which quotations are looked up.

    Args:
        messages: pairs of id and text.
    """

    def __init__(self, messages: Iterable[tuple[str, str]]) -> None:
        self._messages = [(message_id, plain(text)) for message_id, text in messages]

    def message_ids(self, quotation: str) -> tuple[str, ...]:
        """Return the ids of the messages that contain `quotation`; empty if nobody said it.

        A quotation may join pieces of several turns only by an ellipsis ("…" or "..."); each must occur in a turn.
        """
        pieces = [plain(piece).strip("\"' ") for piece in re.split(r"\.\.\.|…", quotation)]
        pieces = [piece for piece in pieces if len(piece) >= MIN_CHARACTERS]
        found = [[message_id for message_id, text in self._messages if piece in text] for piece in pieces]
        if not found or not all(found):
            return ()
        return tuple(dict.fromkeys(ids[0] for ids in found))
