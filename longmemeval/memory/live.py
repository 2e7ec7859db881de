"""Memory classes handed over as objects, defined in a notebook or a script: they run in this process."""

import builtins
import dataclasses
import datetime as dates
import dis
import enum
import functools
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import count
from logging import Logger
from os import getpid
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from longmemeval.core.files import sha256_text
from longmemeval.core.moved import name_in_0_2
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES, class_memory
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.external.connect import LIVE, LIVE_CLASSES
from longmemeval.plugins import source_sha256

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# The hash of a class by its code: what its methods do, the functions they call and the plain values they use.
#
# Compiled code counts, not text: layout and comments change nothing, and a file that is edited while the process runs
# does not mislead. Libraries count by name, this one by its names of version 0.2, modules of the user by their files.

_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), range, slice, PurePath, Decimal, Fraction),
    *(dates.date, dates.time, dates.timedelta, dates.tzinfo, re.Pattern, enum.Enum),
)
_BY_NAME = (BuiltinFunctionType, type(str.join), type(str.__add__), Logger)
"""Built-in functions and methods, and loggers: their name says all that matters."""
_NAMES_A_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")


@dataclasses.dataclass(frozen=True)
class CodeHash:
    """The hash of a class."""

    sha256: str
    unknown: tuple[str, ...]
    """Values the class uses that could not be hashed, with their types; the hash does not cover them."""


def code_hash(loaded: type) -> CodeHash:
    """Return the hash of a class."""
    walk = _Walk()
    walk.visit(loaded.__name__, loaded)
    return CodeHash(sha256_text("\n".join(walk.lines)), tuple(dict.fromkeys(walk.unknown)))


class _Walk:
    """Collects a line for everything that the code can reach."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.unknown: list[str] = []
        self._seen: dict[int, object] = {}  # Keeps the objects alive, so that no id is reused.

    def visit(self, name: str, value: object) -> None:
        """Add a value that is known by `name`."""
        if isinstance(value, _PLAIN):
            self.lines.append(f"{name}={value!r}")
        elif isinstance(value, ModuleType):
            self._module(name, value.__name__)
        elif id(value) in self._seen:
            self.lines.append(f"{name}: see above")
        else:
            self._seen[id(value)] = value
            self._composed(name, value)

    def _composed(self, name: str, value: object) -> None:
        components = _components(value)
        if isinstance(value, type | FunctionType) and _is_elsewhere(value.__module__):
            self._module(name, value.__module__, value.__qualname__)
        elif isinstance(value, type):
            self._class(name, value)
        elif isinstance(value, FunctionType):
            self._function(name, value)
        elif components is not None:
            self.lines.append(f"{name}: {type(value).__name__}")
            for key, component in components:
                self.visit(f"{name}.{key}", component)
        elif isinstance(value, _BY_NAME):
            self.lines.append(f"{name}: {getattr(value, '__qualname__', '') or getattr(value, 'name', '')}")
        elif _is_library(getattr(value, "__module__", None)) and hasattr(value, "__qualname__"):
            self.lines.append(f"{name}: {name_in_0_2(value.__module__, value.__qualname__).replace(':', '.')}")
        elif _is_library(type(value).__module__) and type(value).__module__ == "typing":
            self.lines.append(f"{name}: {value!r}")
        else:
            self.unknown.append(f"{name} ({type(value).__name__})")

    def _module(self, name: str, module: str, member: str = "") -> None:
        """Add a module: a library by its name, the user's module by the hash of its files."""
        code = "" if _is_library(module) else source_sha256(module)
        self.lines.append(f"{name}: {name_in_0_2(module, member)} {code}".rstrip())

    def _class(self, name: str, value: type) -> None:
        self.lines.append(f"{name}: class {value.__name__}")
        for base in value.__bases__:
            if base is not object:
                self.visit(f"{name}({base.__name__})", base)
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                for part in (field.default, field.default_factory):
                    if part is not dataclasses.MISSING:
                        self.visit(f"{name}.{field.name}", part)
        for key, member in vars(value).items():
            special = key.startswith(("__", "_abc_"))
            slot = inspect.isdatadescriptor(member) and not isinstance(member, property)
            if not slot and (not special or isinstance(member, FunctionType | staticmethod | classmethod)):
                self.visit(f"{name}.{key}", member)

    def _function(self, name: str, value: FunctionType) -> None:
        if value.__code__.co_filename == "<string>" and value.__name__.startswith("__"):
            return  # Generated by `dataclass` from the fields.
        self.visit(f"{name}()", value.__defaults__)
        self.visit(f"{name}(*)", value.__kwdefaults__)
        for key, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                self.visit(f"{name}[{key}]", cell.cell_contents)
            except ValueError:  # Not set yet.
                self.lines.append(f"{name}[{key}]: not set")
        self._code(name, value.__code__, value.__globals__)

    def _code(self, name: str, code: CodeType, namespace: Mapping[str, Any]) -> None:
        self.lines.append(f"{name}: {code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}")
        for number, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self._code(f"{name}/{constant.co_name}", constant, namespace)
            else:
                self.visit(f"{name}#{number}", constant)
        instructions = dis.get_instructions(code)
        used = {instruction.argval for instruction in instructions if instruction.opname in _NAMES_A_GLOBAL}
        for key in sorted(used):
            if key in namespace:
                self.visit(key, namespace[key])
            elif not hasattr(builtins, key):
                self.lines.append(f"{key}: not defined")


def _components(value: object) -> Iterable[tuple[object, object]] | None:
    """Return the components of a value, each with a name; None if it has none."""
    if isinstance(value, Mapping) and isinstance(value, dict):
        return [(place, component) for place, pair in enumerate(value.items()) for component in pair]
    if isinstance(value, list | tuple):
        return enumerate(value)
    if isinstance(value, set | frozenset):
        return enumerate(sorted(value, key=repr))
    if isinstance(value, staticmethod | classmethod | MethodType):
        return [("function", value.__func__), *([("self", value.__self__)] if isinstance(value, MethodType) else [])]
    if isinstance(value, property):
        return [("get", value.fget), ("set", value.fset), ("delete", value.fdel)]
    if isinstance(value, functools.cached_property):
        return [("get", value.func)]
    if isinstance(value, functools.partial):
        return [("function", value.func), ("arguments", value.args), ("named", value.keywords)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return [("class", type(value)), *fields]
    wrapped = getattr(value, "__wrapped__", None)
    return None if wrapped is None or isinstance(value, FunctionType) else [("wrapped", wrapped)]


def _is_elsewhere(module: str) -> bool:
    """Return whether a function or class of this module is identified by the module, not by its own code."""
    in_file = module != "__main__" and getattr(sys.modules.get(module), "__file__", None) is not None
    return in_file or _is_library(module)


def _is_library(module: object) -> bool:
    """Return whether a module belongs to Python, to an installed package or to this one."""
    if not isinstance(module, str) or module == "__main__":
        return False
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == __name__.partition(".")[0]:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and any(Path(file).is_relative_to(place) for place in _libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    return tuple(dict.fromkeys(_places()))


def _places() -> Iterator[str]:
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        if place := sysconfig.get_paths().get(name):
            yield place


# Register a class of this process as a memory, under a name that holds the hash of its code.

_HASH_CHARACTERS = 12
"""Hexadecimal digits of the hash in a name."""
_numbers = count(1)


def live_spec(loaded: type) -> str:
    """Return the name under which a class is a memory of this process: `class:Notes@3f2a91bc05d7`.

    Changed code has another name. A class that uses something that cannot be hashed, such as a model in a variable,
    gets a name that no other process has: nothing made by it is reused.

    Raises:
        HarnessError: it has neither `add` and `search` nor `recall`, or it has a part that is defined in this process.
    """
    hashed = code_hash(loaded)
    digest = hashed.sha256[:_HASH_CHARACTERS]
    if hashed.unknown:
        known = (spec for spec, live in LIVE_CLASSES.items() if live is loaded and "@unhashed" in spec)
        digest = next((spec.partition("@")[2] for spec in known), f"unhashed-{getpid()}-{next(_numbers)}")
    spec = f"{LIVE}{loaded.__name__}@{digest}"
    if LIVE_CLASSES.get(spec) is loaded:
        return spec
    definition = class_memory(loaded)
    _check_parts(loaded, definition)
    origin = {"source_sha256": hashed.sha256}
    if hashed.unknown:
        origin["unhashed"] = ", ".join(hashed.unknown)
    LIVE_CLASSES[spec] = loaded
    if not callable(getattr(loaded, "recall", None)):
        definition = class_memory(loaded, spec, origin)
    MEMORIES.give(spec, replace(definition, origin=origin, label=loaded.__name__))
    return spec


def unhashed(spec: str) -> str:
    """Return the values of a live class that could not be hashed; empty if there are none, and for other memories."""
    origin = MEMORIES.get(spec).origin if spec.startswith(LIVE) else None
    return (origin or {}).get("unhashed", "")


def _check_parts(loaded: type, definition: MemoryDefinition[Any]) -> None:
    """Raise an error if a part is made by code that its recipe does not cover."""
    for part in definition.all_parts().values():
        home = inspect.getmodule(type(part))
        if home is None or not home.__name__.startswith("longmemeval."):
            raise HarnessError(
                f"{loaded.__name__} has a part of its own, '{part.name}'",
                fix="Put the class and the part into a module and name it: Memory('module:Class')",
            )
