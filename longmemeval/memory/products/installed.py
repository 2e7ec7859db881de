"""Where a product is installed, whether it is, and how its process is begun."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.memory.products.adapter import FILE_VARIABLE, Adapter
from longmemeval.settings import folders

_RECORD = "installed.json"


class Installed(Struct, frozen=True):
    """`installed.json`, written when everything is there."""

    requirements: tuple[str, ...]
    python: str
    """Version of the interpreter."""
    packages: dict[str, str]
    """Name to version, of all packages."""


@dataclass(frozen=True)
class Place:
    """The virtual environment of one product.

    Args:
        adapter: of the product.
        folder: of the environment.
    """

    adapter: Adapter
    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def installed(self) -> Installed | None:
        """What is there; None where it is not finished, or not what the adapter calls for."""
        try:
            told = msgspec.json.decode((self.folder / _RECORD).read_bytes(), type=Installed)
        except (OSError, msgspec.DecodeError):
            return None
        wanted = self.adapter.description.requirements
        return told if told.requirements == wanted and self.python.exists() else None

    def record(self, installed: Installed) -> None:
        """Say that everything is there."""
        write_atomic(self.folder / _RECORD, msgspec.json.format(msgspec.json.encode(installed), indent=1) + b"\n")

    def forget(self) -> None:
        """Say that it is not finished."""
        (self.folder / _RECORD).unlink(missing_ok=True)

    def required(self) -> "Place":
        """This place, if the product is there.

        Raises:
            HarnessError: it is not, with the command that installs it; or the adapter's file is missing or faulty.
        """
        self.adapter.check_file()
        if self.installed:
            return self
        name = self.adapter.name
        there = self.folder.exists()
        why = (
            "is not completely installed, or at other versions than this longmemeval needs"
            if there
            else "is not installed"
        )
        raise HarnessError(
            f"The memory '{name}' {why}", where=str(self.folder), fix=f"Run: longmemeval memory install {name}"
        )

    @property
    def command(self) -> list[str]:
        """The words that begin its process."""
        serve = Path(__file__).parents[1] / "external" / "serve.py"
        target = f"{self.adapter.module}:{self.adapter.description.class_name}"
        return [str(self.python), "-I", str(serve), target]

    @property
    def environment(self) -> Mapping[str, str]:
        """Of its process: ours, and what the adapter says on top."""
        file = self.adapter.file
        own = {FILE_VARIABLE: os.path.abspath(file)} if file else {}
        return {**os.environ, **own, **self.adapter.description.environment}


def place_of(adapter: Adapter, root: Path | None = None) -> Place:
    """Where the product of an adapter belongs.

    Args:
        adapter: of the product.
        root: holds the environments of all products; None: `LONGMEMEVAL_MEMORIES_DIR`, else `installed-memories`.
    """
    return Place(adapter, Path(os.path.abspath(root or folders().memories_dir)) / adapter.name)
