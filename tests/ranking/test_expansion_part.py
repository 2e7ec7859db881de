"""The fixture part of expansions: the same bytes, and every fault named."""

import json
from datetime import date

import pytest

from longmemeval.errors import FixtureError
from longmemeval.ranking.expansion import Expansion, decode, encode, keys_part

FACTS = (Expansion("s:0", ("I have a cat", "it is 3\u00a0years old")), Expansion("s:1", ()))
EVENTS = (Expansion("s", ("moved", "will move"), (date(2023, 5, 1), None)),)


def test_what_is_written_is_read() -> None:
    part = decode(encode("fact", "turn", FACTS), "f")
    assert (part.kind, part.level, part.items) == ("fact", "turn", FACTS)
    assert part.texts == {"s:0": FACTS[0].texts, "s:1": ()}
    assert decode(encode("event", "session", EVENTS), "f").items == EVENTS
    assert decode(encode("summary", "session", ()), "f").items == ()


def test_the_file_is_readable_and_named_by_kind_and_level() -> None:
    data = encode("event", "session", EVENTS)
    assert data.startswith(b'{\n  "format": 1,\n  "kind": "event",\n  "level": "session",\n  "items": [\n    {')
    assert json.loads(data)["items"] == [{"id": "s", "texts": ["moved", "will move"], "dates": ["2023-05-01", None]}]
    assert keys_part("event", "session").name == "expansions-event-session"


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(encode("fact", "turn", FACTS)), **changes}).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a valid part of a fixture"),
        (b"garbage", "not a valid part of a fixture"),
        (b"[]", "not a valid part of a fixture"),
        (encode("fact", "turn", FACTS)[:-20], "not a valid part of a fixture"),
        (changed(format=2), "format 2 is newer"),
        (changed(format=2, items="all new"), "format 2 is newer"),
        (changed(format=0), "Unknown fixture format 0"),
        (changed(kind="rumour"), "rumour"),
        (changed(level="round"), "round"),
        (changed(items=[{"id": "s"}]), "texts"),
        (changed(items=[{"id": "s", "texts": [1]}]), "Expected `str`"),
        (changed(items=[{"id": "s", "texts": []}, {"id": "s", "texts": []}]), "'s' occurs twice"),
        (changed(items=[{"id": "s", "texts": ["a"], "dates": ["2023-02-30"]}]), "date"),
        (changed(items=[{"id": "s", "texts": ["a"], "dates": ["2023-02-03", None]}]), "1 texts and 2 dates"),
        (changed(items=[{"id": "s", "texts": ["a"], "dates": [None]}]), "of kind 'fact' has 1 dates"),
        (changed(kind="event"), "of kind 'event' has 0 dates"),
    ],
)
def test_damaged_part_is_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(FixtureError) as caught:
        decode(data, "folder/part.json")
    assert why in str(caught.value)
    assert "folder/part.json" in str(caught.value)


def test_items_that_do_not_fit_are_not_written() -> None:
    with pytest.raises(ValueError, match="0 dates"):
        encode("event", "session", FACTS)
    with pytest.raises(ValueError, match="twice"):
        encode("fact", "turn", FACTS * 2)
