"""An adapter: a folder that says how somebody else's memory system is installed and spoken to.

`adapter.toml` says what is installed, `memory.py` has the class that `serve.py` serves from the product's own virtual
environment. Neither is imported here.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.files import sha256_file, sha256_text

_DESCRIPTION = "adapter.toml"
FOLDER_VARIABLE = "LONGMEMEVAL_ADAPTER"
"""Names the adapter's folder to the class, which may read files that lie there."""


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
    environment: dict[str, str] = {}
    """Variables of the process: telemetry off, no downloads."""


@dataclass(frozen=True)
class Adapter:
    """One adapter.

    Args:
        name: what it goes by after `--memory`.
        folder: where its files are.
        description: its `adapter.toml`.
    """

    name: str
    folder: Path
    description: Description

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
        return Path(os.path.normpath(self.folder / self.description.module))

    @property
    def origin(self) -> Mapping[str, str]:
        """What a record tells of it: what is installed, and the hash of its files, so that a change is noticed."""
        own = [file for file in self.folder.iterdir() if file.suffix not in (".pyc", "") and file.is_file()]
        files = sorted({*own, self.module})
        lines = "".join(f"{file.name}:{sha256_file(file)}\n" for file in files)
        return {"requirements": " ".join(self.description.requirements), "source_sha256": sha256_text(lines)}
