"""Values are made once whoever asks, and the oldest go first."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from longmemeval.core.caches import SingleFlightCache


def test_threads_share_one_value() -> None:
    cache = SingleFlightCache[str, list[int]]()
    made: list[list[int]] = []

    def make() -> list[int]:
        time.sleep(0.02)
        made.append([])
        return made[-1]

    with ThreadPoolExecutor(8) as threads:
        got = [one.result() for one in [threads.submit(cache.get, "key", make) for _ in range(8)]]
    assert len(made) == 1
    assert all(one is made[0] for one in got)


def test_other_keys_do_not_wait() -> None:
    cache = SingleFlightCache[str, str]()
    assert cache.get("outer", lambda: cache.get("inner", lambda: "made") + " inside") == "made inside"


def test_the_values_used_last_stay() -> None:
    cache = SingleFlightCache[int, int](10, lambda value: value)
    for key in (1, 2, 3, 4):
        cache.get(key, partial(int, key))
    assert cache.get(1, lambda: 0) == 1
    cache.get(5, lambda: 5)
    # 2, 3 and 4 went, 1 was used since.
    assert [cache.get(key, lambda: 0) for key in (1, 5)] == [1, 5]
    assert cache.get(4, lambda: 0) == 4
    assert cache.get(2, lambda: 0) == 0
    assert cache.get(9, lambda: 100) == 100
    assert cache.get(9, lambda: 0) == 100
    assert cache.get(1, lambda: 0) == 0


def test_what_grows_while_it_is_kept_is_weighed_again() -> None:
    cache = SingleFlightCache[int, list[int]](10, len)
    values = {key: cache.get(key, list[int]) for key in range(4)}
    for key, value in values.items():
        value += [0] * 4
        cache.weigh(key)
    assert [key for key in values if cache.peek(key)] == [2, 3]
    values[2] += [0] * 20
    cache.weigh(2)
    cache.weigh(0)
    assert [key for key in values if cache.peek(key)] == [2]


def test_what_could_not_be_made_is_tried_again() -> None:
    cache = SingleFlightCache[str, int]()

    def fail() -> int:
        raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            cache.get("key", fail)
    assert cache.get("key", lambda: 1) == 1
    cache.drop("key")
    cache.drop("key")
    assert cache.get("key", lambda: 2) == 2
