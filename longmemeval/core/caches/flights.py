"""One maker per value: among all processes and event loops that share a cache, one computes it and the others wait."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from longmemeval.core.caches.sqlite import SqliteCache
from longmemeval.core.locks import LockedError, locked

_LOOK_S = 0.02


@asynccontextmanager
async def only_maker(cache: SqliteCache | None, key: bytes) -> AsyncIterator[None]:
    """Hold `key` against all others that share `cache`; after a wait, look into the cache again.

    The lock is the operating system's: it is released when a process is killed.
    """
    with ExitStack() as held:
        while cache:
            try:
                held.enter_context(locked(_place(cache, key), wait=False))
                break
            except LockedError:
                await asyncio.sleep(_LOOK_S)
        yield


@contextmanager
def only_maker_blocking(cache: SqliteCache, key: bytes) -> Iterator[None]:
    """Hold `key` like `only_maker`, for synchronous code."""
    with locked(_place(cache, key), wait=True):
        yield


def _place(cache: SqliteCache, key: bytes) -> Path:
    return cache.path.with_name(f"{cache.path.name}.{key.hex()[:32]}")
