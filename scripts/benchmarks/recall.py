"""How long one recall takes at 550 and at 5,000 messages, and restoring a graph against building it.

    python scripts/benchmarks/recall.py

All times of recall are processor time. A fresh recall is the first on a haystack: it reads and hashes the parts of the
fixture and makes its indexes of them; it is timed once more for a fixture whose words were not counted at prepare. A
warm one is any later recall. The embedding of the query is left out: vectors are random unit vectors of 384 dimensions
from a fixed generator. The texts are the real haystack's, or the sample's, repeated.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import structs

from longmemeval.core.event_loop import complete
from longmemeval.core.files import sha256_bytes
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.ranking.dense import GRAPH, MESSAGE_GRAPH, encode_graph
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.word_counts import WORDS, WORDS_RECIPE, encode_words
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo, Question, Session, Turn
from longmemeval.storage.fixture import Fixture, write_fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import META_FORMAT
from longmemeval.storage.vector_index import EmbedderIdentity, Graph, VectorIndex, VectorItem

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
DIMENSION = 384
QUERIES = 200
FRESH = 7


def haystack(messages: int) -> Haystack:
    """A history of at least `messages` turns; text is repeated under new session ids as often as needed."""
    record = json.loads((REAL if REAL.exists() else SAMPLE).read_text())[0]
    sessions: list[Session] = []
    total = 0
    while total < messages:
        turns = record["haystack_sessions"][len(sessions) % len(record["haystack_sessions"])]
        made = tuple(Turn(turn["role"], turn["content"] or "-") for turn in turns)
        sessions.append(Session(f"s{len(sessions)}", datetime(2023, 1, 1 + len(sessions) % 28), "", made))
        total += len(made)
    return Haystack("h", tuple(sessions))


def fixture(folder: Path, messages: int, generator: np.random.Generator) -> tuple[Fixture, float]:
    """The prepared history, and the seconds its graph took to build."""
    store = MemoryStore.from_haystack(haystack(messages))
    vectors = generator.normal(size=(len(store.messages), DIMENSION)).astype(np.float32)
    started = time.perf_counter()
    items = [VectorItem(message.message_id, message.thread_id, message.index) for message in store.messages]
    index = VectorIndex.of("messages", items, vectors, EmbedderIdentity("random", "random"))
    graph = Graph.build(index.vectors, GRAPH).state
    parts = {"db": store.persist(), "vector": index.persist(), MESSAGE_GRAPH.name: encode_graph(graph)}
    building = time.perf_counter() - started
    parts[WORDS.name] = encode_words(store.messages)
    recipes = {WORDS.name: WORDS_RECIPE, MESSAGE_GRAPH.name: {"index": "hnsw"}}
    infos = {name: PartInfo(sha256_bytes(data), recipes.get(name, {})) for name, data in parts.items()}
    threads = tuple(thread.id for thread in store.threads)
    identity = DatasetIdentity("benchmark", "0" * 64)
    write_fixture(folder, FixtureMeta(META_FORMAT, identity, "h", ("q",), "resource_h", threads, infos), parts)
    return Fixture.open(folder), building


def milliseconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


async def recall_ms(memory: MemorySystem, one: Question, opened: Fixture) -> float:
    """Processor time."""
    started = time.process_time()
    await memory.recall(one, opened)
    return (time.process_time() - started) * 1000


async def measure(messages: int) -> None:
    generator = np.random.default_rng(0)
    queries = generator.normal(size=(QUERIES, DIMENSION)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        opened, building = fixture(Path(folder), messages, generator)
        texts = [message.content[:120] for message in opened.memory.messages]
        asked = [
            Question(f"q{number}", texts[number * 7 % len(texts)], datetime(2023, 6, 1), "", "h")
            for number in range(QUERIES)
        ]
        vectors = {one.text: query for one, query in zip(asked, queries, strict=True)}
        print(f"{len(texts)} messages")
        for name in ("semantic-recall", "bm25", "hybrid"):
            memory = build_memory(resolve_configuration(name), MemoryTools(embed_query=vectors.__getitem__))
            times = [await recall_ms(memory, one, opened) for one in asked]
            rest = sorted(times[1:])
            p50, p95 = statistics.median(rest), rest[int(len(rest) * 0.95)]
            print(f"  {name:16} warm: p50 {p50:.2f} ms, p95 {p95:.2f} ms; fresh: {await fresh(memory, asked, opened)}")
        restoring = min(milliseconds_of(lambda: Fixture.open(Path(folder)).part(VECTORS)) for _ in range(5))
        print(f"  opening the fixture with its index takes {restoring:.1f} ms, ", end="")
        print(f"building and writing the index {building * 1000 / restoring:.0f} times as long")


async def fresh(memory: MemorySystem, asked: list[Question], opened: Fixture) -> str:
    """Processor time of the first recall on a haystack, fastest of some."""
    meta = opened.meta
    uncounted = structs.replace(meta, parts={name: info for name, info in meta.parts.items() if name != WORDS.name})
    found = []
    for present in (meta, uncounted):
        times = [await recall_ms(memory, asked[0], Fixture(opened.path, present)) for _ in range(FRESH)]
        found.append(min(times))
    return f"{found[0]:.1f} ms, without counted words {found[1]:.1f} ms"


if __name__ == "__main__":
    for size in (550, 5000):
        complete(measure(size))
