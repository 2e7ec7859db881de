"""Embedding goes on while workers make fixtures, and what waits for them is bounded by its bytes."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread

import pytest

from longmemeval.arrays import Vectors
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.pipeline import making, pool
from longmemeval.pipeline.build import FixtureTask, PrepareRecord
from longmemeval.pipeline.pool import Backend, Pool
from longmemeval.pipeline.prepare import PrepareOptions, prepare
from longmemeval.records import DatasetIdentity, Haystack, Session, Turn
from tests.pipeline.helpers import colours, folders_in
from tests.support import json_lines


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_next_haystacks_are_embedded_while_workers_make_fixtures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    dataset, where = colours(tmp_path / "d.json", 6), folders_in(tmp_path)
    finished: list[int] = []
    embed = HashingEmbedder.embed

    def embed_slowly(self: HashingEmbedder, texts: Sequence[str]) -> Vectors:
        """From the third haystack on: not before a fixture is finished."""
        deadline = time.monotonic() + 30
        while len(finished) >= 2 and not made() and time.monotonic() < deadline:
            time.sleep(0.01)
        finished.append(made())
        return embed(self, texts)

    def made() -> int:
        return len(list(where.prepared_dir.glob("d/default/*/meta.json")))

    monkeypatch.setattr(HashingEmbedder, "embed", embed_slowly)
    monkeypatch.setattr(making, "_GROUP_BYTES", 1)
    options = PrepareOptions(jobs=2, backend=backend)
    assert prepare(dataset, ["semantic-recall"], options=options, where=where).prepared == 6
    assert finished[:2] == [0, 0]
    assert min(finished[2:]) >= 1
    assert len(json_lines(where.prepared_dir / "d/default/prepare.jsonl")) == 6


def task(name: str, size: int) -> FixtureTask:
    turn = Turn("user", "x" * size)
    haystack = Haystack(name, (Session("s", datetime(2023, 5, 20), "", (turn,)),))
    return FixtureTask(Path(name), DatasetIdentity("d", ""), haystack, (), {}, {}, None)


def test_tasks_with_the_workers_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    go = Event()

    def wait(one: FixtureTask) -> PrepareRecord:
        assert go.wait(30)
        time.sleep(0.01)
        return PrepareRecord("fixture", "", 0.0, haystack_id=one.haystack.haystack_id)

    monkeypatch.setattr(pool, "attempt_fixture", wait)
    monkeypatch.setattr(pool, "ROOM_BYTES", 100)
    workers, made = Pool(8, "threading"), list[str]()
    sizes = [30, 30, 30, 30, 90, 500, 1, 1]
    for number, size in enumerate(sizes):
        if number == 3:
            assert made == []
            go.set()
        one = task(str(number), size)
        made += [outcome.haystack_id for outcome in workers.submit(one) if isinstance(outcome, PrepareRecord)]
        held = sum(sizes[other] for other in range(number + 1) if str(other) not in made)
        assert held <= max(100, size)
    made += [outcome.haystack_id for outcome in workers.rest() if isinstance(outcome, PrepareRecord)]
    workers.close()
    assert sorted(made) == [str(number) for number in range(8)]


@contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """The bytes that `folder` held, looked at again and again."""
    seen, end = [0], Event()

    def watch() -> None:
        while not end.wait(0.01):
            seen.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join()


def test_vectors_on_their_way_to_workers_leave_nothing_in_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(maps))
    turns = [{"role": "user", "content": f"word {number}"} for number in range(100)]
    dataset, where = colours(tmp_path / "d.json", 4, haystack_sessions=[turns, turns, turns]), folders_in(tmp_path)
    # Vectors of 1.6 MB for each session.
    options = PrepareOptions(jobs=2, embedder="hashing:4096", index="exact")
    with watched(maps) as seen:
        prepare(dataset, ["semantic-recall"], options=options, where=where)
    assert max(seen) == 0
    vectors = json.loads((where.prepared_dir / "d/default/q3/vector.json").read_text())
    assert vectors["index"]["count"] == 300
