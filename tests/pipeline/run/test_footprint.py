"""What a memory takes up: files of known sizes, directories, a child and what it started; and what is not known."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import structs

from longmemeval import Evaluation, evaluate, load_dataset, prepare, run
from longmemeval.api.data import Data
from longmemeval.core.text.figures import UNKNOWN
from longmemeval.memory.external.serve import Session
from longmemeval.memory.external.transports.service import close_services
from longmemeval.report.tables.runs import footprint_line, footprint_table
from longmemeval.results.lines import Footprint, footprint_of, footprint_part, footprint_totals, merged_footprint
from longmemeval.results.manifest import read_manifest
from longmemeval.settings import Folders
from tests.pipeline.helpers import folders_in

MB = 2**20
Measure = Callable[[str | type], Footprint]
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell as Linux does")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


@pytest.fixture
def data(folders: Folders) -> Data:
    return load_dataset("sample", folders.data_dir).first(3)


@pytest.fixture
def measured(data: Data, folders: Folders) -> Measure:
    """The footprint in the manifest of a run."""

    def of(memory: str | type) -> Footprint:
        number = len([*folders.results_dir.glob("r*")])
        made = run(data, memory, "offline/extractive", folders=folders, name=f"r{number}")
        return footprint_of(read_manifest(folders.results_dir / made.id).totals)

    return of


def stored(folders: Folders, *parts: str) -> int:
    """Bytes of all files of parts, in all histories."""
    fixtures = [meta.parent for meta in folders.prepared_dir.rglob("meta.json")]
    found = [path for folder in fixtures for part in parts for path in folder.glob(part)]
    files = [file for path in found for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sum(len(file.read_bytes()) for file in files)


@pytest.mark.slow
def test_only_the_parts_that_are_read_count(folders: Folders, data: Data, measured: Measure) -> None:
    prepare(data, "hybrid", "bm25", folders=folders)
    found = measured("bm25")
    assert found == Footprint(3, stored(folders, "db.json*", "words.json*"), None)
    assert 0 < stored(folders, "db.json*", "words.json*") < stored(folders, "*.json*") - stored(folders, "meta.json")


class Files:
    """Keeps its messages in a file, and one of a hundred thousand bytes in a folder below it."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def add(self, session: Session) -> None:
        self.kept += [message.content for message in session.messages]

    def search(self, query: str, *, date: datetime, limit: int) -> list[str]:
        return self.kept[-limit:]

    def save(self, folder: Path) -> None:
        (folder / "below").mkdir(exist_ok=True)
        (folder / "below" / "index").write_bytes(b"x" * 100_000)
        (folder / "kept.json").write_text(json.dumps(self.kept))

    def load(self, folder: Path) -> None:
        self.kept = json.loads((folder / "kept.json").read_text())


@pytest.mark.slow
def test_a_directory_counts_with_all_its_files(folders: Folders, measured: Measure) -> None:
    found = measured(Files)
    assert found == Footprint(3, stored(folders, "db.json*", "Files-*"), None)
    assert found.stored_bytes is not None
    assert found.stored_bytes > 300_000 + stored(folders, "db.json*")


class Service:
    """Keeps everything itself, and only hands out a name for it."""

    kept: ClassVar[list[str]] = []

    def add(self, session: Session) -> None:
        self.kept.extend(message.content for message in session.messages)

    def search(self, query: str, *, date: datetime, limit: int) -> list[str]:
        return self.kept[-limit:]

    def reference(self) -> str:
        return "there"


@pytest.mark.slow
def test_what_a_service_keeps_itself_is_not_known(measured: Measure) -> None:
    found = measured(Service)
    assert found == Footprint(3, None, None)
    assert footprint_line(found) == "Disk and memory use: unknown."


CHILD = """
import os, subprocess, sys

HELD = b"x" * (SIZE << 20)
HELPER = "import sys; held = b'y' * (48 << 20); print(len(held), flush=True); sys.stdin.read()"
if "helper" in os.environ.get("BEGINS", ""):
    helper = subprocess.Popen(
        [sys.executable, "-c", HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert helper.stdout.readline()

class Held:
    '''Holds memory of a known size, and freed as much again.'''

    def __init__(self):
        self.kept = []
        freed = b"z" * (SIZE << 20)

    def add(self, session):
        self.kept += [message.content for message in session.messages]

    def search(self, query, *, date, limit):
        return self.kept[-limit:]
"""


@linux
@pytest.mark.slow
def test_a_child_counts_at_its_peak_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measure
) -> None:
    def peak(size: int, begins: str) -> int:
        name = f"held{size}{begins}"
        (tmp_path / f"{name}.py").write_text(CHILD.replace("SIZE", str(size)))
        monkeypatch.setenv("BEGINS", begins)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        serve = shlex.join([sys.executable, "-m", "longmemeval.memory.external.serve", f"{name}:Held"])
        found = measured(f"process:{serve}").resident_bytes
        close_services()
        assert found is not None
        return found

    small, large, with_helper = peak(1, ""), peak(64, ""), peak(1, "helper")
    # What was freed was resident too, and the helper, in a session of its own, holds 48 MB and an interpreter.
    assert 120 * MB < large - small < 140 * MB
    assert 48 * MB < with_helper - small < 80 * MB


@pytest.mark.slow
def test_old_runs_and_unknown_figures(folders: Folders, data: Data, measured: Measure) -> None:
    measured("bm25")
    path = folders.results_dir / "r0" / "run.json"
    manifest = json.loads(path.read_text())
    del manifest["totals"]["footprint"]
    path.write_text(json.dumps(manifest))
    assert footprint_of(read_manifest(path.parent).totals) == Footprint()


@pytest.mark.slow
def test_fixtures_without_recorded_sizes_count_by_their_files(folders: Folders, data: Data, measured: Measure) -> None:
    prepare(data, "bm25", folders=folders)
    for path in folders.prepared_dir.rglob("meta.json"):
        meta = json.loads(path.read_text())
        for part in meta["parts"].values():
            del part["stored_bytes"]
        path.write_text(json.dumps(meta))
    assert measured("bm25") == Footprint(3, stored(folders, "db.json*", "words.json*"), None)


def test_the_most_of_all_sessions_stays() -> None:
    before = footprint_totals({"a": 4, "b": 6}, 500)
    assert footprint_of(before) == Footprint(2, 10, 500)
    grown = {"a": 4, "b": 6, "c": 5}
    for now, most in ((None, 500), (700, 700), (300, 500)):
        assert footprint_of(footprint_totals(grown, now, [before])) == Footprint(3, 15, most)
    assert footprint_of(footprint_totals({"a": 4, "b": None})) == Footprint(2, None, None)


def test_shards_count_a_shared_history_once() -> None:
    one, other = footprint_totals({"a": 4, "b": 6}, 500), footprint_totals({"b": 6, "c": 5}, 300)
    assert footprint_of(merged_footprint([one, other])) == Footprint(3, 15, 500)
    assert merged_footprint([one, {}]) == {}
    assert footprint_of(footprint_part(one, {"a"}, is_first=True)) == Footprint(1, 4, 500)
    assert footprint_of(footprint_part(one, {"b", "c"}, is_first=False)) == Footprint(1, 6, None)
    assert footprint_part({}, {"a"}, is_first=True) == {}


def rows(one: Evaluation, footprints: Sequence[Footprint]) -> list[list[str]]:
    summaries = [structs.replace(one.summary, footprint=footprint) for footprint in footprints]
    table = footprint_table(summaries, [f"run {number}" for number in range(len(summaries))])
    return [[str(cell) for cell in row] for row in table.rows]


def test_tables_and_sentences(folders: Folders, data: Data) -> None:
    graded = evaluate(run(data, "none", "offline/extractive", folders=folders, name="r"), "offline/lexical")
    known, unknown = Footprint(4, 8_000_000, 130_000_000), Footprint(4)
    assert rows(graded, [known, unknown, Footprint()]) == [
        ["run 0", "4", "8.0 MB", "2.0 MB", "130 MB"],
        ["run 1", "4", UNKNOWN, UNKNOWN, UNKNOWN],
        ["run 2", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN],
    ]
    assert rows(graded, [unknown, Footprint()]) == []
    said = "8.0 MB on disk (4 histories, 2.0 MB each); its processes used up to 130 MB of memory (reported)"
    assert footprint_line(known) == f"Disk and memory use: {said}."
    assert footprint_line(Footprint(1, 5_000)) == "Disk and memory use: 5 kB on disk (1 history)."
    assert footprint_line(Footprint(2, None, 2_000_000)).endswith(
        "unknown on disk (2 histories); its processes used up to 2.0 MB of memory (reported)."
    )
