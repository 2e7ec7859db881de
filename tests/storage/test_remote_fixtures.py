"""Fixtures in a store of S3's kind: the same bytes and answers, few requests, and of two writers one wins."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longmemeval import settings
from longmemeval.core.remote.places import Patience, remote_of
from longmemeval.core.remote.store import ObjectCache, store_of
from longmemeval.errors import FixtureError, StoreDownError
from longmemeval.records import FixtureMeta, PartInfo
from longmemeval.storage import remote_fixtures
from longmemeval.storage.fixture import Fixture, fixture_folders, read_meta, write_fixture
from longmemeval.storage.part_files import sha256_directory
from longmemeval.storage.remote_fixtures import invalidate_listing, meta_version, refresh_listing
from tests.s3_server import Asked, S3Server, s3_bucket
from tests.storage.test_fixture import DB, OLD, content, meta_of, vector_part


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3Server:
    return s3_bucket(monkeypatch, tmp_path)


def machine(s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Where the fixture of `h1` is on a machine of that name, which keeps nothing of the others."""
    monkeypatch.setenv("LONGMEMEVAL_REMOTE_CACHE_DIR", name)
    return settings.folders(prepared_dir=s3.address).prepared_dir / "data" / "default" / "h1"


def test_what_one_machine_writes_another_reads(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fixture(machine(s3, monkeypatch, "a"), meta_of(OLD), OLD)

    assert content(machine(s3, monkeypatch, "b")) == OLD
    names = ["db.json", "meta.json", "vector.json"]
    assert sorted(s3.objects()) == [f"fixtures/data/default/h1/{name}" for name in names]


def test_what_was_read_is_read_from_this_machine(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fixture(machine(s3, monkeypatch, "a"), meta_of(OLD), OLD)
    reader = machine(s3, monkeypatch, "b")
    refresh_listing(reader.parent)
    content(reader)
    s3.asked.clear()

    assert content(reader) == OLD
    assert s3.asked == []


def test_a_damaged_copy_is_fetched_again(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine(s3, monkeypatch, "a")
    write_fixture(folder, meta_of(OLD), OLD)
    for copy in Path("a").rglob("db.*.json"):
        copy.write_bytes(b"damaged")

    assert content(folder) == OLD


def test_a_damaged_object_is_named_by_its_address(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fixture(machine(s3, monkeypatch, "a"), meta_of(OLD), OLD)
    s3.put("fixtures/data/default/h1/db.json", b"{}")

    with pytest.raises(FixtureError, match="'db' is damaged") as error:
        Fixture.open(machine(s3, monkeypatch, "b")).read_part("db")
    assert error.value.where == f"{s3.address}/data/default/h1/db.json"


def test_a_part_that_is_made_again_replaces_the_object(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine(s3, monkeypatch, "a")
    write_fixture(folder, meta_of(OLD), OLD)
    new = OLD | {"vector": vector_part("s2")}
    refresh_listing(folder.parent)
    write_fixture(folder, meta_of(new), {"vector": new["vector"]}, compress=True, seen=meta_version(folder))

    assert content(machine(s3, monkeypatch, "b")) == new
    assert len(s3.objects()) == 3
    assert any(name.endswith(".json.zst") for name in s3.objects())


def test_a_writer_that_was_killed_before_the_last_step_left_the_old_fixture(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machine(s3, monkeypatch, "a")
    write_fixture(folder, meta_of(OLD), OLD)
    # What a killed one leaves: objects that nothing names.
    key = "fixtures/data/default/h1/words.json"
    s3.put(key, b'{"left": "over"}')
    new = OLD | {"words": b'{"format": 1}'}
    assert content(machine(s3, monkeypatch, "b")) == OLD

    refresh_listing(folder.parent)
    write_fixture(folder, meta_of(new), {"words": new["words"]}, seen=meta_version(folder))
    assert content(machine(s3, monkeypatch, "c")) == new
    assert len(s3.objects()) == 4


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"words": b"1"}, {"words": b"1"}),
        ({"words": b"1"}, {"words": b"2"}),
        ({"words": b"1"}, {"tokens": b"2"}),
        ({"words": b"1", "dates": b"3"}, {"words": b"2", "tokens": b"4"}),
    ],
)
def test_of_two_machines_that_write_at_once_one_wins_and_both_end_right(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, there: bool, first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    base = {"db": DB}
    places = [machine(s3, monkeypatch, name) for name in ("a", "b")]
    if there:
        write_fixture(places[0], meta_of(base), base)
    both_are_there = threading.Barrier(2)

    def before(asked: Asked) -> None:
        # The first two writings of `meta.json` meet.
        written = [one for one in s3.asked if one.method == "PUT" and one.path.endswith("meta.json")]
        if asked in written and len(written) <= 2:
            both_are_there.wait(30)

    seen = []
    for place in places:
        refresh_listing(place.parent)
        seen.append(meta_version(place))
    s3.asked.clear()
    s3.before = before

    def write(number: int) -> None:
        own = (first, second)[number]
        parts = own if there else base | own
        write_fixture(places[number], meta_of(base | own), parts, seen=seen[number])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    found = content(machine(s3, monkeypatch, "c"))
    assert found is not None
    assert found.keys() == base.keys() | first.keys() | second.keys()
    for name, data in found.items():
        assert data in (base.get(name), first.get(name), second.get(name))
    for place in places:
        invalidate_listing(place.parent)
        assert content(place) == found
    # Nothing lies about that nobody names.
    assert len(s3.objects()) == len(found) + 1


def test_other_data_in_the_same_place_is_refused(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec import structs

    folder = machine(s3, monkeypatch, "a")
    write_fixture(folder, meta_of(OLD), OLD)
    meta = meta_of(OLD)
    other = structs.replace(meta, dataset=structs.replace(meta.dataset, sha256="e" * 64))

    with pytest.raises(FixtureError, match="Another command has prepared different data here"):
        write_fixture(folder, other, OLD)


def test_a_directory_is_one_object(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "deep").mkdir(parents=True)
    (state / "deep" / "file.bin").write_bytes(b"\0\1")
    (state / "empty.txt").write_text("")
    info = PartInfo(sha256_directory(state), {"version": 1}, directory=True)
    meta = _with(meta_of({"db": DB}), "mem", info)
    write_fixture(machine(s3, monkeypatch, "a"), meta, {"db": DB, "mem": state}, compress=True)

    assert not state.exists()
    for name in ("a", "b"):
        folder = Fixture.open(machine(s3, monkeypatch, name)).part_folder("mem")
        assert sha256_directory(folder) == info.sha256
        assert (folder / "deep" / "file.bin").read_bytes() == b"\0\1"
    assert sorted(path.rpartition("/")[2] for path in s3.objects()) == ["db.json.zst", "mem.tar.zst", "meta.json"]


def _with(meta: FixtureMeta, name: str, info: PartInfo) -> FixtureMeta:
    from msgspec import structs

    return structs.replace(meta, parts=meta.parts | {name: info})


def test_a_preparation_is_listed_in_one_request(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        folder = machine(s3, monkeypatch, "a").with_name(f"h{number}")
        write_fixture(folder, meta_of(OLD), OLD)
    root = machine(s3, monkeypatch, "b").parent
    s3.asked.clear()

    metas = [read_meta(folder) for folder in fixture_folders(root)]
    assert len(metas) == 5
    assert None not in metas
    assert [asked.is_listing for asked in s3.asked].count(True) == 1
    assert len(s3.asked) == 1 + 5
    s3.asked.clear()
    assert [read_meta(folder) for folder in fixture_folders(root)] == metas
    assert [asked.is_listing for asked in s3.asked] == [True]


def test_beyond_the_bound_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    import os

    kept = ObjectCache(tmp_path / "bucket", limit=100)
    for number in range(4):
        kept.write(f"part{number}", bytes(30))
        os.utime(tmp_path / "bucket" / ".objects" / f"part{number}", (number, number))
    assert [kept.read(f"part{number}") is not None for number in range(4)] == [False, True, True, True]
    kept.write("large", bytes(500))
    assert kept.read("large") == bytes(500)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == 500


def test_a_directory_that_cannot_be_unpacked_leaves_nothing_and_keeps_the_old_copy(tmp_path: Path) -> None:
    kept = ObjectCache(tmp_path / "bucket")
    old = kept.put_folder("part", lambda folder: (folder / "one").touch())

    def fill_and_fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        kept.put_folder("part", fill_and_fail)
    assert [path.name for path in old.parent.iterdir()] == [old.name]
    assert [path.name for path in old.iterdir()] == ["one"]
    assert kept.put_folder("part", lambda folder: (folder / "two").touch()) == old
    assert [path.name for path in old.parent.iterdir()] == [old.name]
    assert [path.name for path in old.iterdir()] == ["two"]


def test_a_full_disk_is_not_taken_for_a_damaged_part(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(data: bytes, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(remote_fixtures, "unpack", full)
    with pytest.raises(FixtureError, match="No space left") as caught:
        remote_fixtures._fill(b"", "s3://bucket/part.tar", tmp_path)
    assert "LONGMEMEVAL_REMOTE_CACHE_DIR" in str(caught.value)


def test_what_a_store_says_that_is_not_known_comes_with_what_to_do(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = remote_of(settings.folders(prepared_dir=s3.address).prepared_dir)
    assert remote
    store = store_of(remote)

    def odd(*_: object, **__: object) -> None:
        raise OSError("SlowDown")

    monkeypatch.setattr(store._fs, "cat_file", odd)
    with pytest.raises(FixtureError, match="SlowDown") as caught:
        store.read("fixtures/part.json")
    assert caught.value.fix


def test_each_opening_waits_as_long_as_it_was_told(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    root = settings.folders(prepared_dir=s3.address).prepared_dir
    hasty, patient = (remote_of(root, Patience(seconds, is_there=True)) for seconds in (0.05, 600.0))
    assert hasty
    assert patient

    def silent(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(store_of(hasty)._fs, "cat_file", silent)
    with pytest.raises(StoreDownError, match="--give-up-after"):
        store_of(hasty).read("fixtures/part.json")
    # Nor did it change what others who opened the bucket wait for.
    assert store_of(patient).read("fixtures/part.json") is None
    with pytest.raises(StoreDownError):
        store_of(hasty).read("fixtures/other.json")
