"""The place of an installed product: its state, and the command that starts its process."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.memory.products.adapter import FILE_VARIABLE, Adapter
from longmemeval.settings import Folders

_RECORD = "installed.json"


class Installed(Struct, frozen=True):
    """`installed.json`, written when the installation is complete."""

    requirements: tuple[str, ...]
    python: str
    """Version of the interpreter."""
    packages: dict[str, str]
    """Version by name, of all packages."""


@dataclass(frozen=True)
class Place:
    """The virtual environment of one product.

    Args:
        adapter: the product's.
        folder: the folder of the environment.
    """

    adapter: Adapter
    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def installed(self) -> Installed | None:
        """The record of the installation; None if it is not complete, or not what the adapter requires."""
        try:
            recorded = msgspec.json.decode((self.folder / _RECORD).read_bytes(), type=Installed)
        except (OSError, msgspec.DecodeError):
            return None
        wanted = self.adapter.description.requirements
        return recorded if recorded.requirements == wanted and self.python.exists() else None

    def record(self, installed: Installed) -> None:
        """Record that the installation is complete."""
        write_atomic(self.folder / _RECORD, msgspec.json.format(msgspec.json.encode(installed), indent=1) + b"\n")

    def forget(self) -> None:
        """Record that the installation is not complete."""
        (self.folder / _RECORD).unlink(missing_ok=True)

    def required(self) -> "Place":
        """Return this place if the product is installed.

        Raises:
            HarnessError: it is not, with the command that installs it; or the adapter's file is missing or faulty.
        """
        self.adapter.check_file()
        if self.installed:
            return self
        name = self.adapter.name
        there = self.folder.exists()
        why = (
            "is only partly installed, or has other versions than this longmemeval needs"
            if there
            else "is not installed"
        )
        raise HarnessError(
            f"The memory '{name}' {why}", where=str(self.folder), fix=f"Run: longmemeval memory install {name}"
        )

    @property
    def command(self) -> list[str]:
        """The command that starts its process."""
        serve = Path(__file__).parents[1] / "external" / "serve.py"
        target = f"{self.adapter.module}:{self.adapter.description.class_name}"
        return [str(self.python), "-I", str(serve), target]

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its process: ours, overridden by the adapter's."""
        file = self.adapter.file
        own = {FILE_VARIABLE: os.path.abspath(file)} if file else {}
        return {**os.environ, **own, **self.adapter.description.environment}


def place_of(adapter: Adapter, root: Path | None = None) -> Place:
    """Return the place of an adapter's product.

    Args:
        adapter: the product's.
        root: holds the environments of all products; None: `LONGMEMEVAL_MEMORIES_DIR`, else `installed-memories`.
    """
    return Place(adapter, Path(os.path.abspath(root or Folders().memories_dir)) / adapter.name)
