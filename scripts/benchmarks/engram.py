"""The bi-temporal engine alone: adding a message, and a search, as the history grows.

    python scripts/benchmarks/engram.py [EPISODES ...]     550 and 5,000 unless given

Processor time. Adding includes reading facts out of the message by rules; the vectors of the hashing embedder are made
by the first search after it, which is timed apart. The texts are the real haystack's, or the sample's, repeated under
new sessions a day apart.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from longmemeval.memory.engram import Engram
from longmemeval.records import Session, Turn

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
SEARCHES = 100


def sessions(episodes: int) -> list[Session]:
    """Sessions of about `episodes` turns in all."""
    (record, *_) = json.loads((REAL if REAL.exists() else SAMPLE).read_text())
    made: list[Session] = []
    total = 0
    while total < episodes:
        turns = record["haystack_sessions"][len(made) % len(record["haystack_sessions"])]
        day = datetime(2000, 1, 1, 10) + timedelta(days=len(made))
        made.append(Session(f"s{len(made)}", day, "", tuple(Turn(one["role"], one["content"] or "-") for one in turns)))
        total += len(turns)
    return made


def milliseconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def measured(episodes: int) -> None:
    memory = Engram()
    adding: list[float] = []
    for session in sessions(episodes):
        for turn in session.turns:
            one = Session(session.session_id, session.date, "", (turn,))
            adding.append(milliseconds(lambda one=one: memory.add(one)))
    latest = adding[-500:]
    asked = [turn.content[:80] for session in sessions(300) for turn in session.turns if turn.role == "user"]
    first = milliseconds(lambda: memory.search(asked[0]))
    searching = [
        milliseconds(lambda number=number: memory.search(asked[number % len(asked)])) for number in range(SEARCHES)
    ]
    added = f"{statistics.median(latest):6.2f} {percentile(latest, 0.95):6.2f}"
    searched = f"{statistics.median(searching):6.1f} {percentile(searching, 0.95):6.1f}"
    print(f"{len(adding):8,}  {len(memory.facts()):6,}   {added}   {first:9,.0f}   {searched}")


def main() -> None:
    print("                   adding one of the last 500    first search     later searches")
    print("episodes   facts      p50    p95 ms                     ms         p50    p95 ms")
    for episodes in [int(one) for one in sys.argv[1:]] or [550, 5_000]:
        measured(episodes)


if __name__ == "__main__":
    main()
