"""How fast a fixture opens, and how large its vectors are on disk.

Messages come from the real benchmark file beside the project where it is at hand, else they are made up; vectors are
random (speed does not depend on their meaning). Prints ratios, since milliseconds depend on the machine.
"""

import json
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np

from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.ranking.dense import GRAPH, MESSAGE_GRAPH, encode_graph
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo, Session, Turn
from longmemeval.storage.fixture import Fixture, write_fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import META_FORMAT
from longmemeval.storage.vector_index import EmbedderIdentity, Graph, VectorIndex, VectorItem

REAL_FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "longmemeval_e47becba.json"
DIMENSION = 384
ROUNDS = 15


def real_haystack() -> Haystack:
    record = json.loads(REAL_FILE.read_text(encoding="utf-8"))[0]
    rows = zip(record["haystack_session_ids"], record["haystack_dates"], record["haystack_sessions"], strict=True)
    sessions = [
        Session(
            session_id=session_id,
            date=datetime.strptime(date, "%Y/%m/%d (%a) %H:%M"),
            date_text=date,
            turns=tuple(Turn(turn["role"], turn["content"]) for turn in turns),
        )
        for session_id, date, turns in rows
    ]
    return Haystack(record["question_id"], tuple(sorted(sessions, key=lambda session: session.date)))


def made_up_haystack() -> Haystack:
    turns = tuple(Turn("user" if turn % 2 == 0 else "assistant", "words about something " * 40) for turn in range(11))
    day = datetime(2023, 5, 20, 2, 21)
    return Haystack("made-up", tuple(Session(f"session_{number}", day, "", turns) for number in range(50)))


def write(folder: Path, memory: MemoryStore, vectors: Vectors) -> Fixture:
    items = [VectorItem(message.message_id, message.thread_id, message.index) for message in memory.messages]
    index = VectorIndex.of("messages", items, vectors, EmbedderIdentity("random", "random"))
    graph = encode_graph(Graph.build(index.vectors, GRAPH).state)
    parts = {"db": memory.persist(), "vector": index.persist(), MESSAGE_GRAPH.name: graph}
    meta = FixtureMeta(
        format=META_FORMAT,
        dataset=DatasetIdentity("benchmark", ""),
        haystack_id="benchmark",
        question_ids=(),
        resource_id=memory.resource.id,
        thread_ids=tuple(thread.id for thread in memory.threads),
        parts={name: PartInfo(sha256_bytes(data), {"index": "hnsw"}) for name, data in parts.items()},
    )
    write_fixture(folder, meta, parts)
    return Fixture.open(folder)


def milliseconds(action: Callable[[], object]) -> float:
    """The fastest of `ROUNDS` calls: what other work on the machine disturbs least."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    haystack = real_haystack() if REAL_FILE.exists() else made_up_haystack()
    memory = MemoryStore.from_haystack(haystack)
    count = len(memory.messages)
    vectors = np.random.default_rng(0).standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = json.dumps(vectors.tolist())

    def hydrate(folder: Path) -> Fixture:
        fixture = Fixture.open(folder)
        if len(fixture.memory.messages) != len(fixture.part(VECTORS).rows()[0]):
            raise SystemExit("the fixture lost something")
        return fixture

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "fixture"
        size = len(write(folder, memory, vectors).read_part("vector"))
        opening = milliseconds(lambda: hydrate(folder))
        searching = milliseconds(lambda: hydrate(folder).part(MESSAGE_GRAPH).query(vectors[0], 10))
    parsing = milliseconds(lambda: json.loads(numbers))
    building = milliseconds(lambda: Graph.build(vectors, GRAPH))

    print(f"{count} messages of {'the real file' if REAL_FILE.exists() else 'made-up text'}, {DIMENSION} dimensions")
    print(f"opening the fixture, hashes checked, both stores ready: {opening:.2f} ms")
    print(f"the same and a first search, for which the graph is restored: {searching:.2f} ms")
    print(f"json.loads of the vectors as lists of numbers: {parsing:.1f} ms, {parsing / opening:.1f} times the opening")
    print(f"building the graph again: {building:.1f} ms, {building / (searching - opening):.1f} times restoring it")
    print(f"vector.json: {size:,} bytes, {size / vectors.nbytes:.2f} times the raw float32 vectors")


if __name__ == "__main__":
    main()
