"""Templates that turn an entry's values into a line of text: `{who} went to {place}[ with {company}]`.

Text in square brackets is left out if one of its places is empty.
"""

import re
from collections.abc import Mapping

_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_PLACE = re.compile(r"\{(\w+)\}")


def places(template: str) -> list[str]:
    """Return the names of the places of `template`, in order.

    Raises:
        ValueError: brackets or braces do not pair.
    """
    if "".join(piece[0] for piece in _PIECE.finditer(template)) != template:
        raise ValueError("square brackets must pair, and must not be nested")
    if re.search(r"[{}]", _PLACE.sub("", template)):
        raise ValueError("a place is a name in braces: {name}")
    return _PLACE.findall(template)


def filled(template: str, values: Mapping[str, str]) -> str:
    """Fill the places of `template` with `values`; a bracket with an empty place is left out."""
    parts = []
    for piece in _PIECE.finditer(template):
        text = piece[2] if piece[1] is None else piece[1]
        if piece[1] is None or all(values.get(name) for name in _PLACE.findall(text)):
            parts.append(_PLACE.sub(lambda place: values.get(place[1], ""), text))
    return " ".join("".join(parts).split())
