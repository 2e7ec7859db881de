"""The bi-temporal engine alone: writing, consolidating and searching as one history grows.

    python scripts/benchmarks/engram.py [EPISODES ...]     550, 5,000 and 50,000 unless given

Processor time of one thread, hashing embedder. A write takes in one message: facts are read out of it by rules and held
against what is known, words are counted, the text is embedded. Consolidating is the part of it that deals with facts,
of a whole session. The texts are the real haystack's, or the sample's, repeated under new sessions a day apart with
their number; each session says besides who somebody's friend is, where they live and what was bought, so that facts
grow with the history. No question is asked twice. `past day`: the same questions, each as of another day.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # A second thread that waits would count as work.

from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.records import Episode
from longmemeval.records import Session, Turn

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
SEARCHES = 100
SYLLABLES = ("ba", "do", "fe", "gi", "ku", "la", "mo", "ne", "pi", "ro", "sa", "tu")


def name(number: int) -> str:
    """A name for each number."""
    made = ""
    while number or len(made) < 6:
        number, place = divmod(number, len(SYLLABLES))
        made += SYLLABLES[place]
    return made.capitalize()


def turns() -> list[list[Turn]]:
    """Those of the haystack's sessions."""
    (record, *_) = json.loads((REAL if REAL.exists() else SAMPLE).read_text())
    return [[Turn(one["role"], one["content"]) for one in session] for session in record["haystack_sessions"]]


def sessions() -> Iterator[Session]:
    """Without end."""
    told = turns()
    for number in count():
        day = datetime(2000, 1, 1, 10) + timedelta(days=number)
        news = (
            f"My friend {name(number)} lives in {name(number + 900)}. I bought a {name(number).lower()} lamp yesterday."
        )
        known = (Turn(turn.role, f"{turn.content} ({number})") for turn in told[number % len(told)])
        yield Session(f"s{number}", day, "", (Turn("user", news), Turn("assistant", "Good to know."), *known))


class Timed(Engram):
    """An engine that notes how long it deals with facts."""

    consolidating = 0.0

    def take(self, episode: Episode) -> None:
        started = time.process_time()
        super().take(episode)
        self.consolidating += (time.process_time() - started) * 1000


def milliseconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def p50_p95(values: Sequence[float]) -> str:
    ordered = sorted(values)
    median, slow = (ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.95))
    return f"{median:7.2f} {slow:7.2f}"


def searched(memory: Engram, asked: Sequence[str], days: Sequence[datetime | None]) -> list[float]:
    """Milliseconds of each question, asked as of each day; None: now."""
    return [milliseconds(partial(memory.search, text, as_of=day)) for text, day in zip(asked, days, strict=False)]


def main() -> None:
    asked = [turn.content[:80] for session in turns() for turn in session if turn.role == "user"][: SEARCHES + 1]
    memory, coming = Timed(), sessions()
    writing: list[float] = []
    consolidating: list[float] = []
    searching: list[float] = []
    print("                    write one         consolidate      first search     past day         growth")
    print("episodes   facts    p50     p95 ms    p50     p95 ms   ms      p50     p95 ms    p50     p95 ms  of search")
    for size in [int(one) for one in sys.argv[1:]] or [550, 5_000, 50_000]:
        while len(memory.episodes) < size:
            session, before = next(coming), memory.consolidating
            for turn in session.turns:
                one = Session(session.session_id, session.date, "", (turn,))
                writing.append(milliseconds(partial(memory.add, one)))
            consolidating.append(memory.consolidating - before)
        first = milliseconds(partial(memory.search, asked[-1]))
        now = searched(memory, asked, [None] * SEARCHES)
        begin = memory.episodes[0].event_at
        past = [begin + (memory.episodes[-1].event_at - begin) * (one + 1) / SEARCHES for one in range(SEARCHES)]
        searching.append(sorted(now)[len(now) // 2])
        print(
            f"{len(memory.episodes):8,} {len(memory.facts()):7,} {p50_p95(writing[-500:])}   "
            f"{p50_p95(consolidating[-50:])} {first:7.0f} {p50_p95(now)}   {p50_p95(searched(memory, asked, past))}   "
            f"{searching[-1] / searching[0]:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
