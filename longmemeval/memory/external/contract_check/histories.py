"""The two made-up histories on which memory systems are tried, and a question about the first."""

from collections.abc import Sequence
from datetime import datetime

from longmemeval.records import Haystack, Session, Turn


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
