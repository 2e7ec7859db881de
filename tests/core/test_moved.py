"""Names of version 0.2: what has moved can be imported by them, and a user's class that uses it keeps its hash."""

import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import pytest

import longmemeval
from longmemeval.core.moved import modules_of_0_2, moved_to, name_in_0_2
from longmemeval.memory.live import code_hash
from tests.support import clean_environment

FLIPS = "longmemeval.pipeline.compare.flips"


@pytest.mark.slow
def test_every_module_of_0_2_can_be_imported() -> None:
    assert len(modules_of_0_2()) == 803
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for module in modules_of_0_2():
            assert import_module(module).__name__ == module


@pytest.mark.slow
def test_no_two_names_of_0_2_are_one_now() -> None:
    """Else the hash of a class that uses the second would change: `moved.json` has to tell such names apart."""
    wrong = []
    for old, names in modules_of_0_2().items():
        for name in names:
            module, _, now = (moved_to(old, name) or f"{old}:{name}").partition(":")
            # What another module defines, or nobody any more, has no name of its own here.
            there = getattr(import_module(module), now, None)
            if getattr(there, "__module__", "") == module and name_in_0_2(module, now) != f"{old}:{name}":
                wrong.append(f"{old}:{name} and {name_in_0_2(module, now)} are both {module}:{now}")
    assert wrong == []


def test_an_old_name_warns_and_leads_to_the_same_object() -> None:
    told = (
        "from longmemeval.pipeline.compare.flips import pool_repeats as old\n"
        "from longmemeval.pipeline.compare import repeats\n"
        "print(old is repeats.pool_repeats)\n"
        "import longmemeval.pipeline.compare.flips as module\n"
        "print(hasattr(module, 'nothing'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, env=clean_environment(), timeout=200
    )
    assert done.stdout.split() == ["True", "False"]
    assert "<string>:1: DeprecationWarning: longmemeval.pipeline.compare.flips is " in done.stderr
    assert done.stderr.count("DeprecationWarning") == 1


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'longmemeval\.nothing'"):
        import_module("longmemeval.nothing.at_all")


def test_an_old_module_takes_no_name_from_what_stands_in_its_place() -> None:
    """As where a folder `verify/` with a module `verify` becomes a module `verify` with that function."""
    home = ModuleType("longmemeval.a_home")
    vars(home).update(__path__=[], flips="a function of it")
    old = f"{home.__name__}.flips"
    from longmemeval.core import moved

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.setitem(sys.modules, home.__name__, home)
        patch.setattr(moved, "_moved", lambda: {old: "longmemeval.pipeline.compare.repeats"})
        found = import_module(old)
        patch.delitem(sys.modules, old)
    assert vars(home)["flips"] == "a function of it"
    assert found.__name__ == old


CLASS = """
import longmemeval
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.repeats import Flips

class Notes:
    def __init__(self): self.memory = Memory
    def add(self, session): raise HarnessError(message_item)
    def search(self, query, *, date, limit): return Flips, items, longmemeval.run
"""


def hash_with(**names: object) -> str:
    known: dict[str, Any] = {"__name__": "__main__"}
    FunctionType(compile(CLASS, "<cell>", "exec"), known)()
    known.update(names)
    hashed = code_hash(known["Notes"])
    assert hashed.unknown == ()
    return hashed.sha256


def as_in_0_2(value: Callable[..., object], module: str) -> object:
    """A class or function of the same name that says to be of the module where it stood in 0.2."""
    named: Any = (
        FunctionType((lambda: None).__code__, {}) if inspect.isfunction(value) else type(value.__name__, (), {})
    )
    named.__module__, named.__qualname__ = module, value.__qualname__
    return named


def test_a_class_that_uses_names_of_this_package_keeps_its_hash() -> None:
    from longmemeval.memory import items
    from longmemeval.memory.items import message_item
    from longmemeval.pipeline.compare.repeats import Flips

    now = hash_with(Memory=longmemeval.Memory, items=items, message_item=message_item)
    then = hash_with(
        Memory=as_in_0_2(longmemeval.Memory, "longmemeval.pipeline.objects.memory"),
        items=ModuleType("longmemeval.memory.items"),
        message_item=as_in_0_2(message_item, "longmemeval.memory.items"),
        Flips=as_in_0_2(Flips, FLIPS),
    )
    assert now == then
    other = hash_with(
        Memory=as_in_0_2(longmemeval.Memory, "longmemeval.memory"), items=items, message_item=message_item
    )
    assert other != now
