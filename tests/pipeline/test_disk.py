"""What `prepare` says of the disk it needs is what it takes, and it refuses where there is not enough."""

import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.datasets.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.disk import free_bytes, shown_bytes
from longmemeval.pipeline.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.recipes import IndexEngine
from longmemeval.pipeline.selection import Selection
from longmemeval.settings import Folders
from tests.conftest import real_file
from tests.pipeline.helpers import colours, folders_in
from tests.support import longmemeval

FIXTURES, CACHES, FREE = "disk for fixtures, MB", "disk for the caches, MB", "free on that disk, MB"
BLOCK = 4096


def on_disk(folder: Path) -> float:
    """MB of the blocks of all files, the log of a cache merged into it."""
    for cache in folder.rglob("*.sqlite"):
        with sqlite3.connect(cache) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in files) / 1e6


def compare_with_what_it_takes(source: str, where: Folders, index: IndexEngine, embedder: str, limit: int) -> None:
    dated = resolve_configuration("hybrid", ["time_range=boost"])
    memories = ("combined", "hybrid", dated)
    dataset, options = load_dataset(source), PrepareOptions(index=index, embedder=embedder, jobs=1)

    def make(options: PrepareOptions) -> PrepareReport:
        return prepare(dataset, memories, selection=Selection(limit=limit), options=options, where=where)

    foreseen = make(structs.replace(options, dry_run=True)).estimate
    make(options)
    assert foreseen[FIXTURES] == pytest.approx(on_disk(where.prepared_dir / dataset.name), rel=0.05)
    assert foreseen[CACHES] == pytest.approx(on_disk(where.cache_dir), rel=0.05, abs=0.2)
    assert make(structs.replace(options, dry_run=True)).estimate[FIXTURES] == 0
    again = make(structs.replace(options, dry_run=True, force=True)).estimate
    # What is there already is replaced.
    assert abs(again[FIXTURES]) < 0.03 * foreseen[FIXTURES]
    assert again[CACHES] == 0


@pytest.mark.parametrize(("index", "embedder"), [("hnsw", "hashing"), ("exact", "hashing:1536")])
def test_sample(tmp_path: Path, index: IndexEngine, embedder: str) -> None:
    compare_with_what_it_takes("sample", folders_in(tmp_path), index, embedder, 12)


def test_real_conversations(tmp_path: Path) -> None:
    compare_with_what_it_takes(str(real_file("locomo10.json")), folders_in(tmp_path), "hnsw", "hashing", 250)


def test_real_history(real_longmemeval: Path, tmp_path: Path) -> None:
    compare_with_what_it_takes(str(real_longmemeval), folders_in(tmp_path), "exact", "hashing:256", 1)


def test_too_little_room_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, where = colours(tmp_path / "d.json", 8), folders_in(tmp_path)
    needed = prepare(dataset, ["combined"], options=PrepareOptions(dry_run=True), where=where).estimate
    total = (needed[FIXTURES] + needed[CACHES]) * 1e6
    usage = namedtuple("usage", "total used free")
    free = int(total) - 10_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - free, free))
    foreseen = prepare(dataset, ["combined"], options=PrepareOptions(dry_run=True), where=where)
    assert foreseen.notes[0].startswith("prepare would refuse. There is not enough room on the disk")
    assert foreseen.estimate[FREE] == free / 1e6
    with pytest.raises(HarnessError, match="There is not enough room on the disk") as caught:
        prepare(dataset, ["combined"], where=where)
    assert shown_bytes(total) in caught.value.what
    assert f"{shown_bytes(free)} are free" in caught.value.what
    assert caught.value.where == str(where.prepared_dir / "d" / "default")
    assert "--prepared-dir" in caught.value.fix
    assert list(where.prepared_dir.glob("d/default/*/*")) == []
    monkeypatch.undo()
    assert prepare(dataset, ["combined"], where=where).prepared == 8


def test_free_room_is_that_of_the_folder_that_will_be_made(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not" / "yet") == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


def test_dry_run_shows_it(tmp_path: Path) -> None:
    colours(tmp_path / "d.json")
    done = longmemeval("prepare", "--dataset", "d.json", "--memory", "combined", "--dry-run", cwd=tmp_path)
    for name in (FIXTURES, CACHES, FREE):
        assert f"  {name}: " in done.stdout


@pytest.mark.parametrize(
    ("size", "shown"), [(900, "1 kB"), (45_000_000, "45 MB"), (3_210_000_000, "3.2 GB"), (1_234e9, "1,234 GB")]
)
def test_sizes_are_shown_in_their_unit(size: float, shown: str) -> None:
    assert shown_bytes(size) == shown
