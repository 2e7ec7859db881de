"""Which tests are left out: by `scripts/test --fast` those that begin something, else all but one of alike cases.

Nobody has to mark a test that begins something: it is found in the test itself, in the fixtures it asks for and in the
helpers that it uses, in whatever module of the tests they stand. `@pytest.mark.slow` is for the rest.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from inspect import unwrap
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

BEGINNERS = frozenset(
    {
        "EmbeddingServer",
        "ModelServer",
        "ProcessPoolExecutor",
        "install",
        "longmemeval",
        "minilm_folder",
        "real_longmemeval",
        "s3_bucket",
        "subprocess",
        "sync_playwright",
    }
)
"""Names of what begins a process or a server, or reads much, as the tests use them."""


def begins_something(item: pytest.Item) -> bool:
    """Whether a test begins a process or a server, by itself, a fixture or a helper."""
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs
    if not BEGINNERS.isdisjoint(fixtures):
        return True
    return any(_begins(function) for function in (item.function, *(each[-1].func for each in fixtures.values())))


def later_variants(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of tests marked `variants`, but for the first case of each."""
    first: dict[tuple[Path, str], pytest.Item] = {}
    marked = [item for item in items if item.get_closest_marker("variants")]
    for item in marked:
        first.setdefault((item.path, item.nodeid.partition("[")[0]), item)
    return set(marked) - set(first.values())


@cache
def _begins(function: object) -> bool:
    """Whether a function of the tests uses one of `BEGINNERS`, or another function or class of the tests that does."""
    seen: set[object] = set()
    waiting = [function]
    while waiting:
        used = waiting.pop()
        if used in seen:
            continue
        seen.add(used)
        if isinstance(used, type) and not BEGINNERS.isdisjoint(base.__name__ for base in used.__mro__):
            return True
        for each in _functions(used):
            names = {name for name in _names(each.__code__) if name in each.__globals__}
            if names & BEGINNERS:
                return True
            waiting += [each.__globals__[name] for name in names if _is_of_tests(each.__globals__[name])]
    return False


def _is_of_tests(used: object) -> bool:
    return callable(used) and str(getattr(used, "__module__", "")).startswith("tests.")


def _functions(used: object) -> Iterator[FunctionType]:
    """Yield the function under its decorators; the methods of a class."""
    values: list[Any] = list(vars(used).values()) if isinstance(used, type) else [used]
    for value in values:
        # A property-based test stands in its wrapper.
        inner = getattr(getattr(value, "hypothesis", None), "inner_test", value)
        function = unwrap(getattr(inner, "__func__", inner))
        if isinstance(function, FunctionType):
            yield function


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes that code uses, functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
