"""What several threads share: each value made once, the ones used last kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlightCache(Generic[K, V]):
    """Values by key. Who asks for one that is being made waits for it; what could not be made is tried again.

    Args:
        limit: how much is kept, in units of `size`; None: everything. The value made last stays, whatever its size.
        size: of one value; where it grows while the value is kept, `weigh` is to be called.
    """

    def __init__(self, limit: int | None = None, size: Callable[[V], int] = lambda value: 1) -> None:
        self._limit = limit
        self._size = size
        self._lock = Lock()
        self._values: OrderedDict[K, Future[V]] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._held = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made by `make` where it is not kept.

        `make` may ask for other keys, and must not ask for `key`.
        """
        own = Future[V]()
        with self._lock:
            kept = self._values.setdefault(key, own)
            self._values.move_to_end(key)
        if kept is own:
            try:
                own.set_result(make())
            except BaseException as error:
                self.drop(key)
                own.set_exception(error)
            self.weigh(key)
        return kept.result()

    def kept(self, key: K) -> V | None:
        """The value of `key` where it is there, without waiting for one that is being made."""
        with self._lock:
            value = self._values.get(key)
            if value is None or not value.done():
                return None
            self._values.move_to_end(key)
        return value.result()

    def drop(self, key: K) -> None:
        """Forget the value of `key`, if there is one: the next who asks makes it again."""
        with self._lock:
            self._forget(key)

    def weigh(self, key: K) -> None:
        """Count the value of `key`, or count it again; where all are too much now, the ones used least lately go."""
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
