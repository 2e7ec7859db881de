"""An adapter: a folder that describes how somebody else's memory system is installed and called.

`adapter.toml` lists what is installed, `memory.py` has the class that `serve.py` serves from the product's own virtual
environment. Neither is imported here.
"""

import ast
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.errors import HarnessError
from longmemeval.memory.products.profiles import FILE, Profiles, read_profiles
from longmemeval.plugins import load_object

_DESCRIPTION = "adapter.toml"
FILE_VARIABLE = "LONGMEMEVAL_ADAPTER_FILE"
"""The environment variable that gives the adapter's file to the class."""


class Description(Struct, frozen=True, forbid_unknown_fields=True, rename={"class_name": "class"}):
    """The contents of `adapter.toml`."""

    summary: str
    """A short description of the product."""
    class_name: str
    """The class with `add` and `search`."""
    requirements: tuple[str, ...]
    """The packages to install, each at one version."""
    megabytes: int
    """Size of the environment, measured."""
    page: str
    """Its documentation."""
    module: str = "memory.py"
    """The file of the class, from the adapter's folder."""
    shares: tuple[str, ...] = ()
    """Further files of the adapter that are in other folders."""
    file: str = ""
    """A file that the class reads, in the adapter's folder. If it is not there, the user has to give it."""
    check: str = ""
    """`module:function` of longmemeval that refuses a faulty file with a `ValueError`."""
    remark: str = ""
    """A caveat about its figures, shown in lists and under tables."""
    environment: dict[str, str] = {}
    """Environment variables of the process: telemetry off, no downloads."""


@dataclass(frozen=True)
class Adapter:
    """One adapter.

    Args:
        name: its name after `--memory`.
        folder: the folder of its files.
        description: its `adapter.toml`.
        given: the user's file, for an adapter that needs one: `--memory NAME:FILE`.
    """

    name: str
    folder: Path
    description: Description
    given: Path | None = None

    @classmethod
    def read(cls, folder: Path, name: str = "") -> "Adapter":
        """Read the adapter in a folder.

        Args:
            folder: has `adapter.toml`.
            name: its name, if not that of the folder.

        Raises:
            HarnessError: the description is missing or wrong.
        """
        file = folder / _DESCRIPTION
        try:
            document: Any = tomllib.loads(file.read_text(encoding="utf-8"))
            description = msgspec.convert(document, Description)
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise HarnessError(
                f"The description of a memory adapter cannot be read: {error}", where=str(file)
            ) from error
        return cls(name or folder.name, folder, description)

    @property
    def module(self) -> Path:
        """The file of the class."""
        return self._path(self.description.module)

    @property
    def file(self) -> Path | None:
        """The file that the class reads."""
        return self.given or (self._path(self.description.file) if self.description.file else None)

    @property
    def spec(self) -> str:
        """The value of `--memory` that names it."""
        return f"{self.name}:{self.given}" if self.given else self.name

    @property
    def wants_file(self) -> bool:
        """If set, the user has to give a file."""
        file = self.description.file
        return bool(file) and not self.given and not self._path(file).is_file()

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.given.stem if self.given else self.name

    def check_file(self) -> None:
        """Refuse a file that is missing or faulty.

        Raises:
            HarnessError: the file is missing or faulty.
        """
        file, description = self.file, self.description
        if file and not file.is_file():
            raise HarnessError(
                f"The memory '{self.name}' needs a file, which does not exist",
                where=str(file),
                fix=f"Write --memory {self.name}:{description.file}; {description.page} says what is in it",
            )
        if file and description.check:
            check: Any = load_object(description.check, "check")
            try:
                check(file)
            except ValueError as error:
                raise HarnessError(str(error).rstrip("."), where=str(file), fix=f"See {description.page}") from error

    def _path(self, name: str) -> Path:
        return Path(os.path.normpath(self.folder / name))

    @property
    def accepts(self) -> frozenset[str]:
        """The parameter names of the module's `__init__` methods, read from the source: nothing need be installed."""
        nodes = ast.walk(ast.parse(self.module.read_text(encoding="utf-8")))
        makers = [node.args for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        return frozenset(parameter.arg for make in makers for parameter in [*make.args, *make.kwonlyargs])

    @property
    def profiles(self) -> Profiles:
        """The settings by which it can be measured.

        Raises:
            HarnessError: its `profiles.toml` cannot be read.
        """
        return read_profiles(self.folder)

    @property
    def origin(self) -> Mapping[str, str]:
        """Its requirements and the hash of its files, for records, so that a change is noticed.

        Files that `profiles.toml` says to ingest the same as earlier ones have the hash of those.
        """
        known = [file for file in self.folder.iterdir() if file.suffix not in (".pyc", "") and file.is_file()]
        own = [file for file in known if file.name != FILE]
        others = [self._path(name) for name in self.description.shares]
        given = [self.given] if self.given and self.given.is_file() else []
        files = sorted({*own, *others, self.module, *given})
        lines = "".join(f"{file.name}:{_hash(file)}\n" for file in files)
        made = sha256_text(lines)
        requirements = " ".join(self.description.requirements)
        return {"requirements": requirements, "source_sha256": self.profiles.same_as.get(made, made)}


def _hash(file: Path) -> str:
    """Hash a file with the package under the name it had in 0.2.0, so that histories ingested then stay valid."""
    return sha256_bytes(file.read_bytes().replace(b"longmemeval.memory.products", b"longmemeval.memory.adapters"))
