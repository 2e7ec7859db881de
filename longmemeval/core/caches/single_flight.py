"""A cache for several threads: each value is computed once, and the most recently used ones are kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlightCache(Generic[K, V]):
    """Values by key. A caller waits for a value that is being computed; a failed computation is tried again.

    Args:
        limit: how much to keep, in units of `size`; None: everything. The newest value stays, whatever its size.
        size: size of one value; if it grows while the value is kept, call `weigh`.
    """

    def __init__(self, limit: int | None = None, size: Callable[[V], int] = lambda value: 1) -> None:
        self._limit = limit
        self._size = size
        self._lock = Lock()
        self._values: OrderedDict[K, Future[V]] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._held = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`, computed by `make` if it is not cached.

        `make` may get other keys, but not `key`.
        """
        own = Future[V]()
        with self._lock:
            shared = self._values.setdefault(key, own)
            self._values.move_to_end(key)
        if shared is own:
            try:
                own.set_result(make())
            except BaseException as error:
                self.drop(key)
                own.set_exception(error)
            self.weigh(key)
        return shared.result()

    def peek(self, key: K) -> V | None:
        """Return the value of `key` if present, without waiting for one that is being computed."""
        with self._lock:
            value = self._values.get(key)
            if value is None or not value.done():
                return None
            self._values.move_to_end(key)
        return value.result()

    def drop(self, key: K) -> None:
        """Forget the value of `key`, if there is one: the next caller computes it again."""
        with self._lock:
            self._forget(key)

    def weigh(self, key: K) -> None:
        """Count the value of `key` (again), and drop the least recently used values beyond the limit."""
        if self._limit is None:
            return
        with self._lock:
            value = self._values.get(key)
            if value is None or not value.done():
                return
            size = self._size(value.result())
            self._held += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            excess, gone = self._held - self._limit, list[K]()
            for old in self._values:
                if excess <= 0:
                    break
                if old != key and old in self._sizes:
                    excess -= self._sizes[old]
                    gone.append(old)
            for old in gone:
                self._forget(old)

    def _forget(self, key: K) -> None:
        self._values.pop(key, None)
        self._held -= self._sizes.pop(key, 0)
