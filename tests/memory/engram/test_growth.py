"""What a search reads of the facts, held against slow and plain code, and that neither writing nor searching grows."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from types import FrameType

import numpy as np
import pytest

from longmemeval.core.arrays import Vectors
from longmemeval.core.text.dates_in_text.phrases import find_matches
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.engine import Engine
from longmemeval.memory.engram.extraction import rules
from longmemeval.memory.engram.extraction import rules as endings
from longmemeval.memory.engram.recall import FactView, believed, recency
from longmemeval.records import Session, Turn

START = datetime(2020, 1, 1, 9, 0)


def name(number: int) -> str:
    """Three letters for each number below 17,576."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(3)).capitalize()


def session(number: int) -> Session:
    """One that tells three new facts."""
    texts = (f"My friend {name(number)} works at {name(number + 40)} Labs.", f"I bought a {name(number).lower()} lamp.")
    turns = tuple(Turn("user", text) for text in (*texts, "It rained all day again, so we stayed inside."))
    return Session(f"s{number}", START + timedelta(number), "", turns)


def told(sessions: int) -> Engram:
    memory = Engram()
    for number in range(sessions):
        memory.add(session(number))
    return memory


@pytest.fixture(scope="module")
def view() -> FactView:
    memory = told(12)
    memory.tell("My name is Dana. I live in Ghent.", START + timedelta(20))
    return believed(memory._opened(), None)


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, of Python's and of C's: what grows with the history where a loop is left."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def test_proximity_is_a_half_for_each_hop(view: FactView) -> None:
    asked = f"Where does {name(3)} work these days?"
    known = {fact.text: value for fact, value in zip(view.facts, view.proximity(asked, 2), strict=True)}
    assert known[f"{name(3)} works at {name(43)} Labs"] == 1
    assert known[f"user's friend is {name(3)}"] == 1
    assert known["user lives in Ghent"] == 0.5
    assert known[f"{name(4)} works at {name(44)} Labs"] == 0.25
    assert not view.proximity(asked, 0).any()


@pytest.mark.parametrize("asked", ["Where do I live?", "and ghent?", f"{name(2)} or {name(5)}", "nobody", ""])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_proximity_is_that_of_a_search_breadth_first(view: FactView, asked: str, hops: int) -> None:
    near: dict[str, set[str]] = {}
    for fact in view.facts:
        near.setdefault(fact.subject, set()).add(fact.object)
        near.setdefault(fact.object, set()).add(fact.subject)
    words = asked.lower().split()
    found = {one: 0 for one in near if one.lower() in [word.strip("?,") for word in words]}
    if "i" in words:
        found["user"] = 0
    for distance in range(1, hops + 1):
        found |= {other: distance for one in list(found) for other in near[one] if other not in found}
    ends = [[found[one] for one in (fact.subject, fact.object) if one in found] for fact in view.facts]
    expected = [0.5 ** min(one) if one and hops else 0.0 for one in ends]
    assert view.proximity(asked, hops).tolist() == expected


def test_recency_falls_by_event_time(view: FactView) -> None:
    now = START + timedelta(30)
    expected = [np.exp(-(now - max(one.valid_at, one.created_at)).total_seconds() / 86400 / 10) for one in view.facts]
    assert recency(view.began, now, 10).tolist() == pytest.approx(expected)
    assert recency(view.began, START - timedelta(5), 10).tolist() == [1.0] * len(view.facts)
    assert not recency(view.began, now, 0).any()


def test_what_was_known_before_anything_was_said_is_not_what_is_known_now() -> None:
    fixture = told(3)._opened()
    assert believed(fixture, START - timedelta(1)).facts == []
    assert believed(fixture, None).facts


def test_old_views_are_let_go() -> None:
    fixture = told(9)._opened()
    first = believed(fixture, START)
    for number in range(1, 9):
        believed(fixture, START + timedelta(number))
    assert believed(fixture, START) is not first
    assert believed(fixture, START).facts == first.facts


@pytest.mark.thorough
@pytest.mark.slow
def test_a_search_does_the_same_however_much_is_stored() -> None:
    counted = []
    for sessions in (60, 600):
        memory = told(sessions)
        asked = (f"What does {name(30)} do now?", "Where did I buy a lamp?", "Was it raining last week?")
        memory.search(asked[0])
        counted.append([calls(partial(memory.search, text)) for text in asked])
    assert all(large < 2 * small for small, large in zip(*counted, strict=True)), counted


@pytest.mark.thorough
@pytest.mark.slow
def test_a_session_is_taken_in_the_same_however_much_is_stored() -> None:
    memory, counted = Engine(), []
    for number in range(1000):
        if number in (20, 100, 999):
            for cached in (rules._matches, endings._matches, find_matches):
                cached.cache_clear()  # Sentences that were read before would be searched for nothing.
            counted.append(calls(partial(memory.add, session(number))))
        else:
            memory.add(session(number))
    assert all(later < 1.2 * sooner for sooner, later in pairwise(counted)), counted


def test_texts_are_embedded_when_they_are_added_and_once() -> None:
    given: list[str] = []

    class Noting(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            given.extend(texts)
            return super().embed(texts)

    memory = Engram(embedder=Noting())
    memory.add(session(0))
    assert len(given) == 3
    memory.search("a lamp?")
    memory.tell(" ", START + timedelta(1))
    memory.tell("I live in Ghent.", START + timedelta(2))
    memory.search("a lamp, or Ghent?")
    assert " " not in given
    assert len(set(given)) == len(given)
