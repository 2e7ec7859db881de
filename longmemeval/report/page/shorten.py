"""Cut texts to fit a size: the longest are cut first, and every cut records how much it left out."""

from collections.abc import Iterable

from msgspec import Struct


class Excerpt(Struct, frozen=True, array_like=True):
    """The beginning of a text, and its end if that was requested."""

    text: str
    left_out: int = 0
    """Number of characters left out; 0: the text is complete."""
    end: str = ""


def fair_limit(sizes: Iterable[int], budget: int) -> int | None:
    """Return the largest limit at which pieces of these sizes, each cut to it, fit into the budget together.

    Returns:
        None if nothing has to be cut.
    """
    ordered = sorted(sizes)
    left = budget
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return share
        left -= size
    return None


def size_of(text: str) -> int:
    """Return the size of a text in the page: bytes of UTF-8."""
    return len(text.encode())


def excerpt(text: str, limit: int | None, *, end: int = 0) -> Excerpt:
    """Return the beginning of `text`, with a share of its end.

    Args:
        text: the complete text.
        limit: bytes of UTF-8 to keep; None: all.
        end: percentage of `limit` that goes to the end of the text.
    """
    if limit is None or size_of(text) <= limit:
        return Excerpt(text)
    data = text.encode()
    tail = limit * end // 100
    # Leave out characters that a cut splits.
    head_text = data[: limit - tail].decode(errors="ignore")
    tail_text = data[len(data) - tail :].decode(errors="ignore")
    return Excerpt(head_text, len(text) - len(head_text) - len(tail_text), tail_text)
