import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from longmemeval.core.files import sha256_bytes
from longmemeval.errors import FixtureError
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo, Session, Turn
from longmemeval.storage.fixture import Fixture, fixture_folder, part_file, read_meta, write_fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import META_FORMAT, with_sizes
from longmemeval.storage.vector_index import EmbedderIdentity, VectorIndex, VectorItem

Parts = Mapping[str, bytes]

TURNS = (Turn("user", "I bought a kite"), Turn("assistant", "What colour?"), Turn("user", "Red"))
HAYSTACK = Haystack("h1", (Session("s1", datetime(2023, 5, 20, 2, 21), "2023/05/20 (Sat) 02:21", TURNS),))


def db_part(*said: str, haystack: Haystack = HAYSTACK) -> bytes:
    """The messages; `said` is put after them."""
    (session,) = haystack.sessions
    more = structs.replace(session, turns=(*session.turns, *(Turn("user", text) for text in said)))
    return MemoryStore.from_haystack(structs.replace(haystack, sessions=(more,))).persist()


def vector_part(thread_id: str = "s1", embedder: str = "hashing:3") -> bytes:
    items = [VectorItem(f"{thread_id}:{index}", thread_id, index) for index in range(3)]
    made_by = EmbedderIdentity(embedder, "f" * 64)
    return VectorIndex.of("messages", items, np.eye(3, dtype=np.float32), made_by).persist()


def meta_of(parts: Parts, prepared_at: str = "") -> FixtureMeta:
    return FixtureMeta(
        format=META_FORMAT,
        dataset=DatasetIdentity("sample", "d" * 64),
        haystack_id="h1",
        question_ids=("q1",),
        resource_id="resource_h1",
        thread_ids=("s1",),
        parts={name: PartInfo(sha256_bytes(data), {"version": 1}) for name, data in parts.items()},
        prepared_at=prepared_at,
    )


def content(folder: Path) -> Parts | None:
    """All parts of a fixture as a reader gets them, None for no fixture; an error if it is neither whole nor absent."""
    if read_meta(folder) is None:
        return None
    fixture = Fixture.open(folder)
    return {name: fixture.read_part(name) for name in fixture.meta.parts}


DB, VECTOR = db_part(), vector_part()
OLD = {"db": DB, "vector": VECTOR}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "fixture"
    write_fixture(path, meta_of(OLD), OLD)
    return path


def test_what_is_written_is_read(folder: Path) -> None:
    fixture = Fixture.open(folder)

    assert fixture.meta == with_sizes(meta_of(OLD), {name: len(data) for name, data in OLD.items()})
    assert [message.content for message in fixture.memory.messages] == ["I bought a kite", "What colour?", "Red"]
    vectors = fixture.part(VECTORS)
    assert vectors.embedder == EmbedderIdentity("hashing:3", "f" * 64)
    hits = vectors.query(np.array([0, 2, 0], dtype=np.float32), 1)
    assert [hit.item.id for hit in hits] == ["s1:1"]
    assert fixture.memory is fixture.memory
    assert sorted(path.name for path in folder.iterdir()) == ["db.json", "meta.json", "vector.json"]


def test_meta_json_is_readable_and_has_exactly_the_documented_keys(folder: Path) -> None:
    text = (folder / "meta.json").read_text()

    assert json.loads(text) == {
        "format": 2,
        "dataset": {"name": "sample", "sha256": "d" * 64},
        "haystack_id": "h1",
        "question_ids": ["q1"],
        "resource_id": "resource_h1",
        "thread_ids": ["s1"],
        "parts": {
            "db": {"sha256": sha256_bytes(DB), "recipe": {"version": 1}, "stored_bytes": len(DB)},
            "vector": {"sha256": sha256_bytes(VECTOR), "recipe": {"version": 1}, "stored_bytes": len(VECTOR)},
        },
        "prepared_at": "",
    }
    assert text.startswith('{\n  "format": 2,\n')


def test_names_from_data_never_leave_the_folder() -> None:
    path = fixture_folder(Path("prepared"), "../../etc", "..", "a/b")

    assert path.parts[0] == "prepared"
    assert len(path.parts) == 4
    assert not {".", "..", "etc", "b"} & set(path.parts)
    assert part_file("db") == "db.json"
    assert "/" not in part_file("../db")


def test_an_absent_fixture_says_how_to_prepare_it(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(FixtureError, match=r"not prepared.*longmemeval prepare --dataset"):
            Fixture.open(path)
        assert read_meta(path) is None


def test_a_part_the_fixture_does_not_have_is_named(folder: Path) -> None:
    with pytest.raises(FixtureError, match=r"no part 'vectors'.*Did you mean 'vector'"):
        Fixture.open(folder).read_part("vectors")


def test_a_missing_part_is_named_and_the_others_can_be_read(folder: Path) -> None:
    (folder / "vector.json").unlink()

    fixture = Fixture.open(folder)

    assert fixture.memory.messages
    with pytest.raises(FixtureError, match=r"Part 'vector' is missing.*vector\.json.*prepare --force"):
        _ = fixture.part(VECTORS)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data.replace(b"Red", b"Bed")]
)
def test_a_damaged_part_is_named_with_both_hashes(folder: Path, damage: "type[bytes]") -> None:
    data = damage(DB)
    (folder / "db.json").write_bytes(data)

    with pytest.raises(FixtureError, match="Part 'db' is damaged") as caught:
        _ = Fixture.open(folder).memory

    assert f"begins with {sha256_bytes(data)[:12]}, meta.json says {sha256_bytes(DB)[:12]}" in caught.value.what


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"{}", b'{"format": 1}', b"\xff\x00"])
def test_a_damaged_meta_json_is_an_error_that_names_it(folder: Path, data: bytes) -> None:
    (folder / "meta.json").write_bytes(data)

    with pytest.raises(FixtureError, match=r"meta\.json.*prepare --force"):
        Fixture.open(folder)
    write_fixture(folder, meta_of(OLD), OLD)
    assert content(folder) == OLD


@pytest.mark.parametrize(("name", "known"), [("meta", 2), ("db", 1), ("vector", 1)])
def test_a_newer_format_is_refused_by_name(folder: Path, name: str, known: int) -> None:
    file = folder / f"{name}.json"
    newer = json.dumps(json.loads(file.read_bytes()) | {"format": known + 1}).encode()
    if name == "meta":
        file.write_bytes(newer)
    else:
        parts = OLD | {name: newer}
        write_fixture(folder, meta_of(parts), parts)

    said = rf"format {known + 1} is newer than this version understands \({known}\): upgrade"
    with pytest.raises(FixtureError, match=said) as caught:
        _ = Fixture.open(folder).part(VECTORS)
    assert caught.value.where == str(file)


def test_a_part_of_another_haystack_is_refused(folder: Path, tmp_path: Path) -> None:
    foreign = {"db": db_part(haystack=Haystack("h2", HAYSTACK.sessions)), "vector": vector_part("s9")}

    (folder / "vector.json").write_bytes(foreign["vector"])
    with pytest.raises(FixtureError, match="Part 'vector' is damaged"):
        _ = Fixture.open(folder).part(VECTORS)

    with_foreign_vectors = OLD | {"vector": foreign["vector"]}
    write_fixture(tmp_path / "v", meta_of(with_foreign_vectors), with_foreign_vectors)
    with pytest.raises(FixtureError, match=r"contains message 's9:0', which db\.json does not"):
        _ = Fixture.open(tmp_path / "v").part(VECTORS)

    with_foreign_db = OLD | {"db": foreign["db"]}
    write_fixture(tmp_path / "d", meta_of(with_foreign_db), with_foreign_db)
    with pytest.raises(FixtureError, match="belongs to 'resource_h2', the fixture to 'resource_h1'"):
        _ = Fixture.open(tmp_path / "d").memory


def test_parts_are_added_and_replaced_and_the_others_kept(folder: Path) -> None:
    facts = b'{"format": 1}'
    new = {"db": db_part("Kites"), "facts": facts}
    inode = (folder / "vector.json").stat().st_ino

    write_fixture(folder, meta_of(OLD | new), new)

    assert content(folder) == OLD | new
    assert Fixture.open(folder).memory.messages[-1].content == "Kites"
    assert (folder / "vector.json").stat().st_ino == inode


def test_meta_must_list_what_is_written_and_what_is_kept_must_be_whole(folder: Path) -> None:
    with pytest.raises(ValueError, match="'db'"):
        write_fixture(folder, meta_of(OLD), {"db": db_part("Kites")})
    with pytest.raises(ValueError, match="named 'meta'"):
        write_fixture(folder, meta_of({"meta": b"{}"}), {"meta": b"{}"})
    with pytest.raises(ValueError, match="'facts'"):
        write_fixture(folder, meta_of(OLD), {"facts": b"{}"})
    with pytest.raises(FixtureError, match="Part 'facts' is missing"):
        write_fixture(folder, meta_of(OLD | {"facts": b"{}"}), {})
    (folder / "vector.json").write_bytes(b"damaged")
    with pytest.raises(FixtureError, match="Part 'vector' is damaged"):
        write_fixture(folder, meta_of(OLD | {"db": db_part("Kites")}), {"db": db_part("Kites")})
    assert Fixture.open(folder).memory.messages[-1].content == "Red"


def test_leftovers_of_other_writes_are_ignored_and_removed(folder: Path) -> None:
    (folder / "db.json.new").write_bytes(b"half a p")
    (folder / "facts.json.new").write_bytes(b"{}")
    (folder / ".db.json.new.x1.tmp").write_bytes(b"half")

    assert content(folder) == OLD
    write_fixture(folder, meta_of(OLD), {"vector": VECTOR})

    assert content(folder) == OLD
    assert sorted(path.name for path in folder.iterdir()) == ["db.json", "meta.json", "vector.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("whole_files", [0, 1, 2])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_full_disk_leaves_the_fixture_as_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_files: int, fresh: bool
) -> None:
    path = tmp_path / "fresh" if fresh else folder
    before = content(path)
    new = {"db": db_part("Kites"), "vector": vector_part(embedder="hashing:4")}
    make, calls = tempfile.mkstemp, []

    def fills_up(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:
        descriptor, name = make(prefix=prefix, suffix=suffix, dir=dir)
        calls.append(name)
        if len(calls) > whole_files:
            os.close(descriptor)
            descriptor = os.open("/dev/full", os.O_WRONLY)
        return descriptor, name

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", fills_up)
        with pytest.raises(FixtureError, match="cannot be written: No space left on device") as caught:
            write_fixture(path, meta_of(new), new)

    assert caught.value.where == str(path)
    assert content(path) == before
    write_fixture(path, meta_of(new), new)
    assert content(path) == new


# Repeats one write in child processes; the n-th kills itself just before its n-th step that opens, renames, removes or
# otherwise touches a file. Ends with the first child that comes to its end.
DEATHS = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from longmemeval.storage.fixture import Fixture, write_fixture

before, after, results, *names = sys.argv[1:]
done = Fixture.open(Path(after))
parts = {name: done.read_part(name) for name in names}

def write_and_die(folder, calls):
    def hook(event, arguments):
        nonlocal calls
        if event in ("open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.scandir"):
            calls -= 1
            if calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    write_fixture(folder, done.meta, parts)
    os._exit(0)

for calls in count():
    folder = Path(results, f"{calls:03}")
    if Path(before).exists():
        shutil.copytree(before, folder)
    child = os.fork()
    if child == 0:
        write_and_die(folder, calls)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        sys.exit(os.WEXITSTATUS(status))
"""


def deaths(before: Path, new: Parts, kept: Parts, work: Path) -> list[Path]:
    """The folders that a write of `new` over a copy of `before` leaves when it is killed at each of its steps."""
    after, results = work / "after", work / "results"
    write_fixture(after, meta_of({**kept, **new}, "later"), {**kept, **new})
    arguments = [str(path) for path in (before, after, results)]
    results.mkdir()
    subprocess.run([sys.executable, "-c", DEATHS, *arguments, *new], check=True, timeout=200)
    return sorted(results.iterdir())


def check_deaths(folders: list[Path], before: Parts | None, after: Parts, new: Parts) -> None:
    """Every death left the fixture as it was or as it should be, and the same write repeated makes it whole."""
    found = [content(folder) for folder in folders if folder.exists()]
    switch = found.index(after)
    assert len(found) > 10
    assert switch > 0
    assert found[:switch] == [before] * switch
    assert found[switch:] == [after] * (len(found) - switch)
    for folder in folders:
        repeated = after if content(folder) is None else new
        write_fixture(folder, meta_of(after), repeated)
        assert content(folder) == after
        assert sorted(path.name for path in folder.iterdir()) == sorted([*map(part_file, after), "meta.json"])


def test_kill_at_any_step_of_a_first_write(tmp_path: Path) -> None:
    folders = deaths(tmp_path / "absent", OLD, {}, tmp_path)

    check_deaths(folders, None, OLD, OLD)


def test_kill_at_any_step_of_a_replacement(folder: Path, tmp_path: Path) -> None:
    new = {"db": db_part("Kites"), "facts": b'{"format": 1}'}

    check_deaths(deaths(folder, new, {"vector": VECTOR}, tmp_path), OLD, OLD | new, new)


def test_kill_at_any_step_of_a_write_that_follows_a_killed_one(folder: Path, tmp_path: Path) -> None:
    second, third = {"db": db_part("Kites")}, {"db": db_part("Red kites")}
    (tmp_path / "second").mkdir()
    killed = next(
        path
        for path in deaths(folder, second, {"vector": VECTOR}, tmp_path / "second")
        if content(path) == OLD | second and (path / "db.json").read_bytes() == DB
    )
    before = tmp_path / "before"
    shutil.move(killed, before)

    folders = deaths(before, third, {"vector": VECTOR}, tmp_path)

    check_deaths(folders, OLD | second, OLD | third, third)
