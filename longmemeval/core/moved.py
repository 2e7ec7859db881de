"""Modules of this package by the names that they had in version 0.2.

`modules_of_0_2.json` lists them with their public functions and classes, and never changes. `moved.json` says where
those went that are no longer there: `"old.module": "new.module"`, and for a name that did not go with its module, or is
called otherwise now, `"old.module:Name": "new.module:NewName"`.

The old names can be imported for one release. They count longer in the hash of a user's class, which names what it uses
of this package (`memory/live.py`): a move must not make another memory of it.

A module that takes the place of a folder, as `llm/rates.py` would of `llm/rates/`, needs `__path__: list[str] = []`:
below a package alone Python looks for old names.
"""

import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class _OldModule(ModuleType):
    """A module under its old name: its members are looked up where they are now."""

    def __getattr__(self, name: str) -> object:
        home = None if name.startswith("__") else moved_to(self.__name__, name)
        if home is None:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        module, _, member = home.partition(":")
        return getattr(import_module(module), member)


class _Parent(ModuleType):
    """A module that keeps its own members where an old module below it has the name of one."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, _OldModule) and name in vars(self)):
            super().__setattr__(name, value)


class _Loader(Loader):
    """Makes old modules."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        parent = sys.modules[module.__name__.rpartition(".")[0]]
        if type(parent) is ModuleType:
            parent.__class__ = _Parent
        if now := _moved().get(module.__name__):
            import_module(now)
            told = f"{module.__name__} is {now} now; the old name works in this release alone"
            warnings.warn(told, DeprecationWarning, stacklevel=2)


def old_module(name: str) -> ModuleSpec | None:
    """Return what makes a module of version 0.2 that is not there any more; None for any other name."""
    if not any(old == name or old.startswith(f"{name}.") for old in _moved()):
        return None
    spec = ModuleSpec(name, _Loader())
    spec.submodule_search_locations = []
    return spec


def moved_to(module: str, name: str) -> str | None:
    """Return where a member of a module of version 0.2 is now, as `module:Name`; None if neither has moved."""
    table = _moved()
    if now := table.get(f"{module}:{name}"):
        return now
    return f"{table[module]}:{name}" if module in table else None


def name_in_0_2(module: str, member: str = "") -> str:
    """Return `module:member` as version 0.2 called it; what that version did not have keeps its name.

    Args:
        module: a module of today.
        member: qualified name of its class or function; empty for the module itself.
    """
    name, dot, rest = member.partition(".")
    old = _names_in_0_2().get(f"{module}:{name}", [])
    return f"{old[0]}{dot}{rest}" if old else f"{module}:{member}"


@cache
def _names_in_0_2() -> Mapping[str, list[str]]:
    """Return the names of version 0.2 by those of today; one that did not move is the first."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, names in modules_of_0_2().items():
        found[f"{_moved().get(module, module)}:"].append(f"{module}:")
        for name in names:
            found[moved_to(module, name) or f"{module}:{name}"].append(f"{module}:{name}")
    for now, old in found.items():
        old.sort(key=lambda one: one != now)
    return {now: old for now, old in found.items() if not now.endswith(":") or now in old or len(old) == 1}


@cache
def modules_of_0_2() -> Mapping[str, list[str]]:
    """Return the public functions and classes of each module of version 0.2."""
    return {module: names.split() for module, names in _read("modules_of_0_2.json").items()}


@cache
def _moved() -> Mapping[str, str]:
    return _read("moved.json")


def _read(file: str) -> dict[str, str]:
    read: dict[str, str] = json.loads(Path(__file__).with_name(file).read_bytes())
    return read
