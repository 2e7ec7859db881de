"""The stores of the bi-temporal engine: filling them with facts and their vectors, and asking them.

    python scripts/benchmarks/stores.py [FACTS]     5,000 unless given

Wall time, medians of 20 questions: what is so of one subject, as of a day and as believed on it; all that is believed;
the names within two hops of one; the ten nearest of the vectors (384 numbers) that are believed. `again` is the time
to see that a store holds everything already. FalkorDB and PostgreSQL are begun as the tests begin them.
"""

import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import fill_facts, fill_vectors
from longmemeval.memory.engram.stores.kinds import Namespace, stores_of_side
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors
from longmemeval.memory.engram.stores.protocol import When

PROJECT = Path(__file__).resolve().parents[2]
START = datetime(2024, 1, 1)
DAY = START + timedelta(days=700)
DIMENSION, SUBJECTS, QUESTIONS = 384, 200, 20


def made(number: int) -> list[Fact]:
    """Facts on so many subjects, a fifth of them no longer believed, over three years."""
    chance = random.Random(0)
    facts = []
    for place in range(number):
        said = START + timedelta(hours=place * 26_280 // number)
        facts.append(
            Fact(
                version_id=f"f{place}.1",
                subject=f"person {chance.randrange(SUBJECTS)}",
                predicate=chance.choice(("home", "likes", "employer", "count:bikes")),
                object=chance.choice((f"person {chance.randrange(SUBJECTS)}", f"thing {place}")),
                text=f"a sentence of usual length that says what is so, number {place}",
                episode_ids=(f"s{place // 10}:{place % 10}",),
                valid_at=said,
                invalid_at=said + timedelta(days=chance.randrange(400)) if chance.random() < 0.4 else None,
                created_at=said,
                expired_at=said + timedelta(days=30) if chance.random() < 0.2 else None,
            )
        )
    return facts


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def typical(work: Callable[[int], object]) -> float:
    """Milliseconds, the median."""
    return statistics.median(timed(lambda number=number: work(number)) for number in range(QUESTIONS)) * 1000


def of_facts(name: str, place: Namespace, facts: list[Fact]) -> str:
    store = open_facts(name, place)
    filled, again = timed(lambda: fill_facts(store, facts)), timed(lambda: fill_facts(store, facts))
    one = typical(lambda n: store.facts((f"person {n}",), when=When(DAY, DAY)))
    whole = typical(lambda n: store.facts(when=When(None, DAY - timedelta(n))))
    near = typical(lambda n: store.distances([f"person {n}"], 2, When(None, DAY)))
    return f"{name:12}   {filled:8.2f}  {again:8.2f}   {one:10.1f}   {whole:6.1f}   {near:11.1f}"


def of_vectors(name: str, place: Namespace, facts: list[Fact]) -> str:
    rows = np.random.default_rng(0).normal(size=(len(facts), DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    store = open_vectors(name, place)
    filled, again = (timed(lambda: fill_vectors(store, facts, rows)) for _ in range(2))
    nearest = typical(lambda n: store.search(rows[n], 10, When(None, DAY - timedelta(n))))
    return f"{name:12}   {filled:8.2f}  {again:8.2f}   {nearest:10.1f}"


def main() -> None:
    sys.path.insert(0, str(PROJECT))
    from tests.memory.engram.databases import falkordb_server, postgres_server

    facts = made(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
    with ExitStack() as servers:
        folder = Path(servers.enter_context(TemporaryDirectory()))
        falkordb, postgres = (
            servers.enter_context(contextmanager(one)()) for one in (falkordb_server, postgres_server)
        )
        os.environ["LONGMEMEVAL_FALKORDB_URL"] = f"unix://{falkordb}/socket"
        os.environ["LONGMEMEVAL_POSTGRES_URL"] = f"postgresql://postgres@/postgres?host={postgres}"
        place = namespace("benchmark", "", folder)
        print(f"{len(facts):,} facts    filled s   again s   subject ms   all ms   two hops ms")
        for name in stores_of_side("facts"):
            print(of_facts(name, place, facts))
        print(f"\n{len(facts):,} vectors  filled s   again s   nearest ms")
        for name in stores_of_side("vectors"):
            print(of_vectors(name, place, facts))


if __name__ == "__main__":
    main()
