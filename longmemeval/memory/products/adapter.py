"""An adapter: a folder that says how somebody else's memory system is installed and spoken to.

`adapter.toml` says what is installed, `memory.py` has the class that `serve.py` serves from the product's own virtual
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
from longmemeval.plugins import load_object

_DESCRIPTION = "adapter.toml"
FILE_VARIABLE = "LONGMEMEVAL_ADAPTER_FILE"
"""Names the adapter's file to the class."""


class Description(Struct, frozen=True, forbid_unknown_fields=True, rename={"class_name": "class"}):
    """`adapter.toml`."""

    summary: str
    """What the product is, in a few words."""
    class_name: str
    """The class with `add` and `search`."""
    requirements: tuple[str, ...]
    """What is installed, each at one version."""
    megabytes: int
    """Size of the environment, measured."""
    page: str
    """Its documentation."""
    module: str = "memory.py"
    """The file of the class, from the adapter's folder."""
    shares: tuple[str, ...] = ()
    """Other files that it is made of, and that lie elsewhere."""
    file: str = ""
    """A file that the class reads, in the adapter's folder. What is not there names what the user has to give."""
    check: str = ""
    """`module:function` of longmemeval that refuses a faulty file by a `ValueError`."""
    remark: str = ""
    """What has to be known before its figures are believed; stands in lists and under tables."""
    environment: dict[str, str] = {}
    """Variables of the process: telemetry off, no downloads."""


@dataclass(frozen=True)
class Adapter:
    """One adapter.

    Args:
        name: what it goes by after `--memory`.
        folder: where its files are.
        description: its `adapter.toml`.
        given: the file that the user gave to an adapter that calls for one: `--memory NAME:FILE`.
    """

    name: str
    folder: Path
    description: Description
    given: Path | None = None

    @classmethod
    def read(cls, folder: Path, name: str = "") -> "Adapter":
        """The adapter in a folder.

        Args:
            folder: has `adapter.toml`.
            name: if it is not that of the folder.

        Raises:
            HarnessError: the description is missing or wrong.
        """
        file = folder / _DESCRIPTION
        try:
            told: Any = tomllib.loads(file.read_text(encoding="utf-8"))
            description = msgspec.convert(told, Description)
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
        """What stands behind `--memory`."""
        return f"{self.name}:{self.given}" if self.given else self.name

    @property
    def wants_file(self) -> bool:
        """Whether the user has to give a file."""
        file = self.description.file
        return bool(file) and not self.given and not self._path(file).is_file()

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.given.stem if self.given else self.name

    def check_file(self) -> None:
        """Refuse a file that is missing or faulty.

        Raises:
            HarnessError: it is.
        """
        file, told = self.file, self.description
        if file and not file.is_file():
            raise HarnessError(
                f"The memory '{self.name}' needs a file, and there is none",
                where=str(file),
                fix=f"Write --memory {self.name}:{told.file}; {told.page} says what is in it",
            )
        if file and told.check:
            check: Any = load_object(told.check, "check")
            try:
                check(file)
            except ValueError as error:
                raise HarnessError(str(error).rstrip("."), where=str(file), fix=f"See {told.page}") from error

    def _path(self, name: str) -> Path:
        return Path(os.path.normpath(self.folder / name))

    @property
    def accepts(self) -> frozenset[str]:
        """Names that `__init__` of the module's classes takes, read from its source: nothing need be installed."""
        nodes = ast.walk(ast.parse(self.module.read_text(encoding="utf-8")))
        makers = [one.args for one in nodes if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        return frozenset(one.arg for make in makers for one in [*make.args, *make.kwonlyargs])

    @property
    def origin(self) -> Mapping[str, str]:
        """What a record tells of it: what is installed, and the hash of its files, so that a change is noticed."""
        own = [file for file in self.folder.iterdir() if file.suffix not in (".pyc", "") and file.is_file()]
        others = [self._path(name) for name in self.description.shares]
        given = [self.given] if self.given and self.given.is_file() else []
        files = sorted({*own, *others, self.module, *given})
        lines = "".join(f"{file.name}:{_hash(file)}\n" for file in files)
        return {"requirements": " ".join(self.description.requirements), "source_sha256": sha256_text(lines)}


def _hash(file: Path) -> str:
    """Hash a file with the package under the name it had in 0.2.0: what was ingested by then stays valid."""
    return sha256_bytes(file.read_bytes().replace(b"longmemeval.memory.products", b"longmemeval.memory.adapters"))
