"""Registries by name: built-in objects and those of other packages, loaded on demand.

A package registers an object by an entry point, for instance in its `pyproject.toml`:

    [project.entry-points."longmemeval.memory"]
    my-memory = "my_package.memory:MY_MEMORY"

A folder of this package does the same in a `plugins.toml` next to its code: a table of names for each registry.

Nothing is imported to list the names; a plugin that cannot be imported breaks only the command that uses it.
"""

import os
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, version
from pathlib import Path
from traceback import extract_tb
from typing import Generic, TypeVar

from msgspec import Struct

from longmemeval import __version__
from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.interruption import is_interrupt
from longmemeval.errors import HarnessError, nearest

T = TypeVar("T")

_PREFIX = "longmemeval."
MEMORY = "longmemeval.memory"
BENCHMARKS = "longmemeval.benchmarks"
JUDGES = "longmemeval.judges"
EXECUTORS = "longmemeval.executors"
EMBEDDERS = "longmemeval.embedders"
STORES = "longmemeval.stores"
CLAIMS = "longmemeval.claims"
GROUPS = (MEMORY, BENCHMARKS, JUDGES, EXECUTORS, EMBEDDERS, STORES, CLAIMS)
"""Groups of entry points, one for each registry."""

_REMEDY = "Fix or uninstall that package; other commands do not need it"


class Plugin(Struct, frozen=True):
    """One registered name and its origin."""

    group: str
    name: str
    target: str
    """`module:attribute`."""
    package: str
    version: str
    problem: str = ""
    """Reason why it cannot be used; empty if it can, or if that was not checked."""


class Registry(Generic[T]):
    """Objects of one kind by name.

    Args:
        group: group of entry points that other packages register in, such as `longmemeval.memory`.
        what: noun for one of them in errors: "memory", "benchmark".
        kind: required type of a loaded object.
        built_in: `module:attribute` by name; None: the names that folders of this package register (`plugins.toml`).
        adapt: converts other accepted forms (such as a class) to a `kind`; anything else stays as it is.
        spelled: creates an object from a self-contained specification, such as an address; None for plain names.
        further: names of this package in addition to the built-in ones, and of another kind.
    """

    def __init__(
        self,
        group: str,
        what: str,
        kind: type[T],
        built_in: Mapping[str, str] | None = None,
        adapt: Callable[[object], object] = lambda loaded: loaded,
        spelled: Callable[[str], object] = lambda name: None,
        further: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.group, self.what, self.kind = group, what, kind
        self.adapt, self.spelled = adapt, spelled
        self._built_in, self._further = built_in, further
        self._loaded: dict[str, T] = {}
        self._local: dict[str, T] = {}

    def give(self, name: str, loaded: T) -> None:
        """Register an object of this process under a name that no package can have."""
        self._local[name] = loaded

    @cached_property
    def built_in(self) -> Mapping[str, str]:
        """Built-in names of this package, with `module:attribute`."""
        return shipped(self.group) if self._built_in is None else self._built_in

    @cached_property
    def further(self) -> Mapping[str, str]:
        """Names of this package that are not built in, with `module:attribute`."""
        return self._further()

    @property
    def _own(self) -> Mapping[str, str]:
        """All names of this package."""
        return {**self.built_in, **self.further}

    def names(self) -> list[str]:
        """Return all names: built-in ones in their order, then those of other packages in alphabetical order."""
        return [*self._own, *sorted({point.name for point in self._installed()} - set(self._own))]

    def __contains__(self, name: str) -> bool:
        return name in self._own or any(point.name == name for point in self._installed())

    def get(self, name: str) -> T:
        """Return the object of `name`; `package.module:Attribute` needs no registration.

        Raises:
            HarnessError: there is no such name (with the nearest one), two packages claim it, its import fails, or it
                is not of this registry's kind.
        """
        if name in self._local:
            return self._local[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def origin(self, name: str) -> dict[str, str] | None:
        """Describe the origin of `name` for a record, so that changed code is noticed; None for a built-in name.

        Returns:
            `target`, for an installed package its name and version, and the object's own statement (its attribute
            `origin`), else `source_sha256`: of the module, or if it is in a package, of all Python files there.

        Raises:
            HarnessError: as for `get`.
        """
        if name in self.built_in:
            return None
        stated: Mapping[str, str] | None = getattr(self.get(name), "origin", None)
        if name in self._local or name in self.further or self.spelled(name) is not None:
            return {"target": name, **(stated or {})}
        point = self._only(name)
        target = point.value if point else name
        installed = {"package": _package(point), "version": _version(_package(point))} if point else {}
        return {"target": target, **installed, **(stated or {"source_sha256": source_sha256(target.partition(":")[0])})}

    def present_origin(self, name: str) -> dict[str, str] | None:
        """Return the current `origin` of a name from a record.

        A module that only the record names is hashed but not imported: records may come from other people.

        Returns:
            None for a built-in name, and if there is no such module here.

        Raises:
            HarnessError: the name is registered, and cannot be loaded.
        """
        if name in self.built_in:
            return None
        if name in self._local or name in self.further or self.spelled(name) is not None or self._only(name):
            return self.origin(name)
        digest = found_source_sha256(name.partition(":")[0])
        return {"target": name, "source_sha256": digest} if digest else None

    def plugins(self, *, check_built_in: bool = False) -> list[Plugin]:
        """Return every name with its origin, and the problem of those that cannot be used.

        Objects of other packages are loaded for that.

        Args:
            check_built_in: load the built-in ones too.
        """
        found = [
            Plugin(self.group, name, target, "longmemeval", __version__, self._problem(name) if check_built_in else "")
            for name, target in self._own.items()
        ]
        for point in sorted(self._installed(), key=lambda point: (point.name, _package(point))):
            package, problem = _package(point), self._problem(point.name, external=True)
            found.append(Plugin(self.group, point.name, point.value, package, _version(package), problem))
        return found

    def _problem(self, name: str, *, external: bool = False) -> str:
        try:
            if external:
                self._only(name)
            self.get(name)
        except HarnessError as error:
            return str(error)
        return ""

    def _installed(self) -> tuple[EntryPoint, ...]:
        return _entry_points(tuple(sys.path)).get(self.group, ())

    def _only(self, name: str) -> EntryPoint | None:
        """Return the single entry point of this name; None if there is none."""
        claims = [point for point in self._installed() if point.name == name]
        claimants = [*(["longmemeval itself"] if name in self._own else []), *sorted(map(_package, claims))]
        if len(claimants) > 1:
            raise HarnessError(
                f"The {self.what} '{name}' is claimed by more than one package: {', '.join(claimants)}",
                where=f"entry points {self.group}",
                fix="Uninstall all but one of them, or register it under another name",
            )
        return claims[0] if claims else None

    def _load(self, name: str) -> T:
        if name in self._own:
            return self._checked(load_object(self._own[name], self.what), name)
        if point := self._only(name):
            source = f"{self.what} '{name}' of the package {_package(point)}"
            return self._checked(load_object(point.value, source, fix=_REMEDY), name)
        if (specified := self.spelled(name)) is not None:
            return self._checked(specified, name)
        if ":" in name:
            return self._checked(load_object(name, self.what), name)
        module, _, attribute = name.rpartition(".")
        is_file = module.isidentifier() and Path(f"{module}.py").is_file()
        fix = f"Write {module}:{attribute}" if is_file else nearest(name, self.names())
        raise HarnessError(f"Unknown {self.what} '{name}'", fix=fix)

    def _checked(self, loaded: object, name: str) -> T:
        adapted = self.adapt(loaded)
        if isinstance(adapted, self.kind):
            return adapted
        what = f"The {self.what} '{name}' is a {type(loaded).__name__}, not a {self.kind.__name__}"
        raise HarnessError(what, fix=f"Register an object of longmemeval's {self.kind.__name__}")


def load_object(target: str, what: str, *, fix: str = "") -> object:
    """Return the object that `package.module:Attribute` names, also in modules of the current folder.

    Args:
        what: noun for the object in errors.
        fix: what to do if the import fails; empty: correct the failing file.

    Raises:
        HarnessError: the module cannot be imported, whatever the reason, or has no such attribute.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise HarnessError(f"'{target}' is not the name of a {what}", fix="Write package.module:Attribute")
    if module.endswith(".py"):
        folder = f", in the folder {Path(module).parent}" if Path(module).parent != Path() else ""
        fix = f"Write {Path(module).stem}:{attribute}{folder}"
        raise HarnessError(f"A {what} is named by its module, not by its file", where=target, fix=fix)
    _look_here()
    here = Path.cwd()
    try:
        loaded: object = import_module(module)
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {error}"
        what = f"The {what} cannot be loaded: importing {module} fails with {why}"
        raise HarnessError(what, where=target, fix=fix or _import_remedy(error, module)) from error
    finally:
        os.chdir(here)  # Relative paths given by the user must stay valid.
    for part in attribute.split("."):
        if not hasattr(loaded, part):
            names: Iterable[str] = (name for name in dir(loaded) if not name.startswith("_"))
            raise HarnessError(f"{module} has no '{attribute}'", where=target, fix=nearest(part, names))
        loaded = getattr(loaded, part)
    return loaded


def _import_remedy(error: BaseException, module: str) -> str:
    """Return the remedy for a failed import: correct the file and line, or install what is missing."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        if module == error.name or module.startswith(f"{error.name}."):
            return f"Run the command in the folder of {module.partition('.')[0]}.py, or install its package"
        return f"Install {error.name}, which {module} imports"
    if isinstance(error, SyntaxError) and error.filename:
        return f"Correct {error.filename}, line {error.lineno}"
    libraries = tuple(sysconfig.get_paths().values())
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(("<", *libraries))]
    written = [frame for frame in frames if frame.filename != __file__]
    return f"Correct {written[-1].filename}, line {written[-1].lineno}" if written else f"Correct {module}"


def shipped(group: str) -> Mapping[str, str]:
    """Return the names registered by folders of this package in a group, those of its namesake benchmark first."""
    return {name: target for table in _shipped_tables() for name, target in table.get(group, {}).items()}


@cache
def _shipped_tables() -> tuple[Mapping[str, Mapping[str, str]], ...]:
    here = Path(__file__).parent
    found = (file for pattern in ("*/plugins.toml", "*/*/plugins.toml") for file in here.glob(pattern))
    files = sorted(found, key=lambda file: (file.parent.name != here.name, file))
    return tuple(tomllib.loads(file.read_text(encoding="utf-8")) for file in files)


@lru_cache(maxsize=8)
def _entry_points(_path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return group -> entry points of other packages; of several packages of one name the first counts, as in imports.

    Cached, and of all groups at once: scanning all installed packages takes longer than most uses of a name.
    """
    found: dict[str, dict[str, list[EntryPoint]]] = {}
    for distribution in distributions():
        with suppress(Exception):  # See `unreadable_packages`.
            # Most packages have none of these groups: parsing theirs would take most of the time.
            if _PREFIX not in (distribution.read_text("entry_points.txt") or ""):
                continue
            points: dict[str, list[EntryPoint]] = {}
            for point in distribution.entry_points:
                if point.group.startswith(_PREFIX):
                    points.setdefault(point.group, []).append(point)
            for group, registered in points.items():
                found.setdefault(group, {}).setdefault(_name(distribution), registered)
    return {group: tuple(point for own in packages.values() for point in own) for group, packages in found.items()}


def unreadable_packages() -> list[Plugin]:
    """Return the installed packages whose entry points are unreadable, and so are left out everywhere."""
    found = []
    for distribution in distributions():
        try:
            list(distribution.entry_points)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            problem = f"Its entry_points.txt cannot be read: {why}. {_REMEDY}."
            package = _name(distribution)
            found.append(Plugin("", "", "", package, _version(package), problem))
    return found


def _name(distribution: Distribution) -> str:
    try:
        return str(distribution.metadata["Name"])
    except Exception:
        return "an unknown package"


def source_sha256(module: str) -> str:
    """Return the hash of an imported module's code; in a package, of all its Python files."""
    loaded = sys.modules[module]
    return _source_sha256(getattr(loaded, "__file__", None), loaded.__package__)


def found_source_sha256(module: str) -> str | None:
    """Return the hash by `source_sha256` of a module without importing it; None if it is not found."""
    _look_here()
    spec, path, name = None, None, ""
    for word in module.split("."):
        name = f"{name}.{word}" if name else word
        specs = (finder.find_spec(name, path) for finder in sys.meta_path)
        spec = next(filter(None, specs), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return _source_sha256(spec.origin, spec.parent) if spec and spec.has_location else None


def _source_sha256(origin: str | None, package: str | None) -> str:
    files = [Path(origin)] if origin else []
    if files and package:
        files = sorted(files[0].parent.rglob("*.py"))
    return sha256_text("".join(f"{file.name}:{sha256_file(file)}\n" for file in files))


def _look_here() -> None:
    """Make modules of the current folder importable."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _package(point: EntryPoint) -> str:
    return _name(point.dist) if point.dist else "an unknown package"


def _version(package: str) -> str:
    try:
        return version(package)
    except (PackageNotFoundError, UnicodeDecodeError, KeyError):
        return ""
