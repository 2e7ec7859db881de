"""Convert what a class returns to items of the protocol."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from .records import Fault

_DATES, _IDS = ("date", "valid_from", "valid_to"), ("message_ids", "session_ids")
_HIT_FIELDS = ("text", "kind", "ref", "speaker", "score", *_DATES, *_IDS)


def items(method: str, found: object) -> list[dict[str, Any]]:
    """Return the hits as items of the protocol.

    Args:
        method: the method that returned them, `search` or `list`.
        found: any iterable of hits.

    Raises:
        Fault: it is not an iterable of hits (None, one text, one mapping), or one of the hits is invalid.
    """
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
        what = "None" if found is None else f"a {type(found).__name__}"
        raise Fault("bad_hit", f"{method} returned {what}; return a list of hits, an empty one where there are none")
    return [item(hit) for hit in found]


def item(hit: object) -> dict[str, Any]:
    """Return a hit, which is a text, a mapping or an object with these fields, as an item of the protocol."""
    if isinstance(hit, str):
        return {"text": hit}
    if isinstance(hit, Mapping):
        if unknown := [str(key) for key in hit if key not in _HIT_FIELDS]:
            close = "".join(f" (did you mean '{name}'?)" for name in get_close_matches(unknown[0], _HIT_FIELDS, n=1))
            raise Fault("bad_hit", f"a hit has no field '{unknown[0]}'{close}; it can have {', '.join(_HIT_FIELDS)}")
        fields = dict[str, Any](hit)
    else:
        fields = {name: getattr(hit, name) for name in _HIT_FIELDS if hasattr(hit, name)}
    if not isinstance(fields.get("text"), str):
        raise Fault("bad_hit", f"a hit is a text, or has the field 'text' with one; here is a {type(hit).__name__}")
    for name in _DATES:
        if isinstance(fields.get(name), datetime):
            fields[name] = fields[name].isoformat()
    for name in _IDS:
        if isinstance(fields.get(name), str):
            raise Fault("bad_hit", f"'{name}' of a hit is a list, not one id")
        if fields.get(name) is not None:
            fields[name] = list(fields[name])
    if fields.get("score") is not None:
        fields["score"] = float(fields["score"])  # JSON does not know numpy's numbers.
    return {name: value for name, value in fields.items() if value is not None}
