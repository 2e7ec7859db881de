import logging
import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from longmemeval.core.caches import SqliteCache, cache_key
from longmemeval.errors import HarnessError

VECTORS = {cache_key(str(i)): random.Random(i).randbytes(2048) for i in range(2000)}
"""As many as are worth a look at the size of their file, each of the size of 512 numbers."""

WRITER = """
import sys
from pathlib import Path
from longmemeval.core.caches import SqliteCache, cache_key

path, name = Path(sys.argv[1]), sys.argv[2]
sys.stdin.read(1)  # start together
cache = SqliteCache(path)
for block in range(20):
    own = {cache_key(name, str(block * 25 + i)): name.encode() for i in range(25)}
    shared = {cache_key("shared", str(block * 25 + i)): b"the same" for i in range(25)}
    cache.put_many(own | shared)
    assert cache.get_many(list(own)) == own
cache.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not" / "yet" / "cache.sqlite"


def test_stored_values_are_found_again_after_reopening(path: Path) -> None:
    values = {cache_key(str(i)): bytes([i % 256]) * i for i in range(1300)}
    cache = SqliteCache(path)
    cache.put_many(values)
    cache.close()
    absent = cache_key("absent")
    assert SqliteCache(path).get_many([*values, absent]) == values


def test_first_value_stays(path: Path) -> None:
    cache = SqliteCache(path)
    cache.put_many({b"k": b"first"})
    cache.put_many({b"k": b"second", b"l": b"new"})
    assert cache.get_many([b"k", b"l"]) == {b"k": b"first", b"l": b"new"}


def test_no_keys_find_nothing(path: Path) -> None:
    cache = SqliteCache(path)
    cache.put_many({})
    assert cache.get_many([]) == {}


def test_fields_that_join_to_the_same_text_have_distinct_keys() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c"), ()]
    assert len({cache_key(*fields) for fields in lists}) == len(lists)


def test_processes_that_open_and_write_at_once_lose_nothing(path: Path) -> None:
    names = ["first", "second", "third"]
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, stderr=subprocess.PIPE) for name in names]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"!")
        writer.stdin.flush()
    errors = [writer.communicate(timeout=200)[1].decode() for writer in writers]
    assert errors == ["", "", ""]
    expected = {cache_key(name, str(i)): name.encode() for name in names for i in range(500)}
    expected |= {cache_key("shared", str(i)): b"the same" for i in range(500)}
    assert SqliteCache(path).get_many(list(expected)) == expected


@pytest.mark.slow
def test_those_who_create_it_at_once_wait_for_each_other(tmp_path: Path) -> None:
    # SQLite refuses some of them at once, whatever the timeout: about one file in twenty.
    together = Barrier(4)

    def create(number: int) -> None:
        together.wait()
        SqliteCache(tmp_path / f"{number}.sqlite").close()

    with ThreadPoolExecutor(4) as threads:
        for number in range(150):
            list(threads.map(create, [number] * 4))


def test_killed_writer_leaves_whole_transactions(path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from longmemeval.core.caches import SqliteCache\n"
        "cache = SqliteCache(Path(sys.argv[1]))\n"
        "cache.put_many({bytes([i]): b'whole' for i in range(100)})\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -9
    assert len(SqliteCache(path).get_many([bytes([i]) for i in range(100)])) == 100


@pytest.mark.parametrize(
    "content", [b"this is not a database, whatever its name says. " * 50, b"SQLite format 3\x00" * 80]
)
def test_damaged_file_is_named_and_may_be_deleted(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(HarnessError, match=r"cache\.sqlite.*Delete it"):
        SqliteCache(path)


def test_a_vector_takes_little_more_than_its_bytes(path: Path) -> None:
    cache = SqliteCache(path)
    cache.put_many(VECTORS)
    cache.close()
    assert path.stat().st_size / len(VECTORS) < 2_500


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET value = zeroblob(4) WHERE key = x'01'",
        "UPDATE entries SET value = x'77686f6c65' || x'00' WHERE key = x'01'",
        "UPDATE entries SET checksum = x'00' WHERE key = x'01'",
        "UPDATE entries SET (value, checksum) = (SELECT value, checksum FROM entries WHERE key = x'02')"
        " WHERE key = x'01'",
    ],
)
def test_a_damaged_value_counts_as_missing(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = SqliteCache(path)
    cache.put_many({b"\x01": b"whole", b"\x02": b"other"})
    with sqlite3.connect(path) as raw:
        raw.execute(damage)
    assert cache.get_many([b"\x01", b"\x02"]) == {b"\x02": b"other"}
    assert cache.damaged == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(path) in caplog.text
    cache.put_many({b"\x01": b"again"})
    assert cache.get_many([b"\x01"]) == {b"\x01": b"again"}
    assert cache.damaged == 1


def test_receipts_are_kept_with_the_values_until_they_are_dropped(path: Path) -> None:
    cache = SqliteCache(path)
    assert cache.put_many({b"a": b"1"}) == 0
    first = cache.put_many({b"b": b"2"}, receipt=("one", b"paid"))
    second = cache.put_many({}, receipt=("two", b"paid for nothing"))
    cache.close()
    cache = SqliteCache(path)
    assert cache.receipts() == {first: ("one", b"paid"), second: ("two", b"paid for nothing")}
    cache.drop_receipts([first, second, 99])
    assert cache.receipts() == {}
    assert cache.put_many({}, receipt=("one", b"")) > second
    assert cache.get_many([b"a", b"b"]) == {b"a": b"1", b"b": b"2"}
