"""What a vector of 512 numbers takes in the cache, against a table ordered by its keys in pages of 4 kB.

That is how the cache was kept before: half of each page stays empty, and a new key lands in the middle of others.
"""

import hashlib
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from longmemeval.core.caches import SqliteCache

COUNT = 20_000
CHUNK = 256


def seconds(work: Callable[[], object]) -> float:
    """What `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Ordered:
    """The table ordered by its keys."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("CREATE TABLE cache (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")

    def put_many(self, values: dict[bytes, bytes]) -> None:
        """Store `values`."""
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO cache VALUES (?, ?)", values.items())

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The values of `keys`."""
        marks = ",".join("?" * len(keys))
        return dict(self._connection.execute(f"SELECT key, value FROM cache WHERE key IN ({marks})", keys))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def measure(cache: Ordered | SqliteCache, path: Path) -> tuple[float, float, float]:
    """Microseconds to write and to read a vector, and its bytes."""
    values = {hashlib.sha256(str(i).encode()).digest(): random.Random(i).randbytes(2048) for i in range(COUNT)}
    keys = list(values)
    chunks = [keys[start : start + CHUNK] for start in range(0, COUNT, CHUNK)]
    written = seconds(lambda: [cache.put_many({key: values[key] for key in chunk}) for chunk in chunks])
    random.Random(0).shuffle(keys)
    chunks = [keys[start : start + CHUNK] for start in range(0, COUNT, CHUNK)]
    read = seconds(lambda: [cache.get_many(chunk) for chunk in chunks])
    cache.close()
    return written / COUNT * 1e6, read / COUNT * 1e6, path.stat().st_size / COUNT


def main() -> None:
    """Print both, and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        before_path, now_path = Path(folder) / "before.sqlite", Path(folder) / "now.sqlite"
        before = measure(Ordered(before_path), before_path)
        now = measure(SqliteCache(now_path), now_path)
    print("                     write     read     bytes")
    print(f"ordered by keys   {before[0]:6.1f} µs {before[1]:6.1f} µs {before[2]:7,.0f}")
    print(f"the cache         {now[0]:6.1f} µs {now[1]:6.1f} µs {now[2]:7,.0f}, checksums made and checked")
    print("ratio             " + " ".join(f"{old / new:8.1f}x" for old, new in zip(before, now, strict=True)))


main()
