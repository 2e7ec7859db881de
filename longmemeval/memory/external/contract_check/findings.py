"""Findings on a memory system from the hits of a trial."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from longmemeval.memory.external.messages import HelloResult
from longmemeval.memory.external.recalled import provenance_of
from longmemeval.records import Haystack, Message, RecalledItem, Session, Turn


def _haystack(name: str, *sessions: tuple[int, tuple[str, ...]]) -> Haystack:
    def turns(texts: Sequence[str]) -> tuple[Turn, ...]:
        return tuple(Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))

    dated = (Session(f"{name}-{day}", datetime(2024, 2, day, 9, 0), "", turns(texts)) for day, texts in sessions)
    return Haystack(name, tuple(dated))


FIRST = _haystack(
    "first",
    (1, ("I adopted a beagle and called her Pixel.", "Congratulations! Beagles need long walks.")),
    (5, ("My sister Alice in Lisbon wants to visit Pixel.", "Lovely. Does Alice like dogs?", "She does, very much.")),
    (9, ("I switched from coffee to green tea.", "Green tea has less caffeine than coffee.")),
)
SECOND = _haystack(
    "second",
    (2, ("My tortoise is called Euclid and sleeps all winter.", "Tortoises need a cool and quiet place.")),
    (7, ("I play the cello in an orchestra in Porto.", "What do you rehearse these days?")),
)
ASKED = datetime(2024, 3, 1, 18, 0)
QUESTION, ANSWERED_BY = "What is the beagle called that I adopted?", "Pixel"
OTHER = {"first": "second", "second": "first"}
WORDS = {"first": ("Pixel", "Alice", "tea"), "second": ("Euclid", "Tortoise", "cello")}
"""Words that occur in one of the histories only."""


class Finding(Struct, frozen=True):
    """The outcome of one check. `missing`: a table column or a convenience is lost; `failed`: results are wrong."""

    what: str
    state: Literal["works", "missing", "failed"]
    details: str = field(name="told")


def begins(hello: HelloResult) -> Finding:
    """Report which memory answered."""
    packages = "".join(f", {name} {version}" for name, version in hello.packages.items())
    return Finding("begin", "works", f"{hello.name}{packages}")


def finds(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether the question finds its answer."""
    if any(ANSWERED_BY in hit.text for hit in hits):
        return Finding("search", "works", f"“{QUESTION}” finds “{ANSWERED_BY}”")
    found = f"the best of {len(hits)} hits is “{hits[0].text[:60]}”" if hits else "nothing is found"
    return Finding("search", "missing", f"“{QUESTION}” does not find “{ANSWERED_BY}”: {found}")


def message_ids(hits: Sequence[RecalledItem]) -> Finding:
    """Report on which level recall can be scored."""
    what = "message ids"
    match provenance_of(hits):
        case "message":
            return Finding(what, "works", "evidence recall by message and by session")
        case "session":
            return Finding(what, "missing", "hits name only sessions: recall is scored by session, and marked as such")
        case _:
            return Finding(what, "missing", "hits do not name their sources: tables show no recall")


def dates(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether hits have the dates of their sessions."""
    dates = {session.session_id: session.date for session in FIRST.sessions}
    if not hits or any(hit.date is None for hit in hits):
        return Finding("dates", "missing", "hits without a date: the answering model cannot tell old from new")
    moved = [hit for hit in hits if hit.kind == "message" and hit.date not in map(dates.get, hit.thread_ids)]
    if hits[0].thread_ids and moved:
        return Finding("dates", "failed", f"a hit has the date {moved[0].date}, but its session has another")
    return Finding("dates", "works", "")


def order(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether the best hits come first."""
    scores = [hit.score for hit in hits if hit.score is not None]
    if len(scores) < len(hits) or not hits:
        return Finding("order", "missing", "hits without a score: no threshold for abstention can be found")
    if scores != sorted(scores, reverse=True):
        return Finding("order", "failed", "hits are not sorted by score, best first")
    return Finding("order", "works", "best first, with scores")


def stray(name: str, items: Sequence[RecalledItem]) -> str:
    """Return a complaint about items in the history `name` that belong to the other one; empty if there are none."""
    found = (item.text for item in items if any(word in item.text for word in WORDS[OTHER[name]]))
    return next((f"one history is found in another: “{text[:60]}”" for text in found), "")


def holds(name: str, items: Sequence[RecalledItem], messages: Sequence[Message]) -> Finding:
    """Report whether exactly what was added is stored."""
    what = "what it holds"
    if problem := stray(name, items):
        return Finding(what, "failed", problem)
    threads = {message.thread_id for message in messages}
    if provenance_of(items) in ("message", "session"):
        lost = len(threads - {thread for item in items for thread in item.thread_ids})
    else:
        lost = 0 if items else len(threads)
    if lost and items and all(item.kind != "message" for item in items):
        return Finding(what, "missing", f"nothing was kept from {lost} of {len(threads)} sessions")
    if lost:
        return Finding(what, "failed", f"{lost} of {len(threads)} sessions are lost: nothing from them is stored")
    return Finding(what, "works", f"{len(items)} items of {len(messages)} messages")
