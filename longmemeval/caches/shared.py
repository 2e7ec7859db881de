"""What several threads share: each value made once, the ones used last kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCache(Generic[K, V]):
    """Values by key. Who asks for one that is being made waits for it; what could not be made is tried again.

    Args:
        limit: how much is kept, in units of `size`; None: everything. The value used last stays, whatever its size. Of
            many values, some more may be kept for a while: a sixteenth of their number.
        size: of one value; it may grow while the value is kept.
    """

    def __init__(self, limit: int | None = None, size: Callable[[V], int] = lambda value: 1) -> None:
        self._limit = limit
        self._size = size
        self._lock = Lock()
        self._unchecked = 0
        self._values: OrderedDict[K, Future[V]] = OrderedDict()

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
            self._drop_old()
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
            self._values.pop(key, None)

    def _drop_old(self) -> None:
        if self._limit is None:
            return
        with self._lock:
            # Adding up all sizes for every new value would take time in proportion to the square of their number.
            self._unchecked += 1
            if self._unchecked * 16 < len(self._values):
                return
            self._unchecked = 0
            made = {key: self._size(value.result()) for key, value in self._values.items() if value.done()}
            held = sum(made.values())
            for key in list(made)[:-1]:
                if held <= self._limit:
                    break
                held -= made[key]
                del self._values[key]
