"""Folders of data, fixtures and results."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from longmemeval.core.arguments import checked
from longmemeval.core.files import is_read_only
from longmemeval.core.remote.places import PlaceError, anchored, cache_bytes, local_place, remote_of
from longmemeval.errors import HarnessError


class Folders(BaseModel):
    """Folders of data, fixtures and results.

    Each is an argument, else `LONGMEMEVAL_DATA_DIR`, `…_PREPARED_DIR` or `…_RESULTS_DIR`, else in the current folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    data_dir: Path = Path("data")
    prepared_dir: Path = Path("prepared-data")
    results_dir: Path = Path("results")
    memories_dir: Path = Path("installed-memories")
    """External memory systems, each in a virtual environment; `LONGMEMEVAL_MEMORIES_DIR`."""
    stores_dir: Path = Path("memory-stores")
    """Files of databases for querying facts, which can be rebuilt; `LONGMEMEVAL_STORES_DIR`."""

    @model_validator(mode="before")
    @classmethod
    def _of_environment(cls, given: Mapping[str, object]) -> dict[str, object]:
        variables = {name.lower(): value for name, value in os.environ.items()}
        named = {name: variables.get(f"longmemeval_{name}") for name in cls.model_fields}
        return {**{name: value for name, value in named.items() if value is not None}, **given}

    @field_validator("prepared_dir", mode="before")
    @classmethod
    def _here(cls, value: object) -> object:
        """Convert the address of a store to the local folder that stands for it.

        Raises:
            HarnessError: the address cannot be used, or the limit of its local copies is not a number.
        """
        try:
            place = local_place(value) if isinstance(value, str | Path) else value
            if isinstance(place, Path) and remote_of(place):
                cache_bytes()
            return place
        except PlaceError as error:
            raise HarnessError(error.what, where="--prepared-dir", fix=error.fix) from error

    @field_validator("data_dir", "prepared_dir", "results_dir", "memories_dir", "stores_dir")
    @classmethod
    def _anchored(cls, folder: Path) -> Path:
        return anchored(folder)

    @property
    def cache_dir(self) -> Path:
        """Hidden folder that caches embeddings and model replies: next to the fixtures, or to the runs if read-only."""
        beside = self.prepared_dir / ".cache"
        return self.results_dir / ".cache" if is_read_only(beside) or is_read_only(self.prepared_dir) else beside

    @property
    def has_cache(self) -> bool:
        """True if earlier commands have cached something here."""
        return self.cache_dir.exists()


@checked()
def folders(
    data_dir: Path | None = None, prepared_dir: str | Path | None = None, results_dir: Path | None = None
) -> Folders:
    """Return the folders in use; None: from the environment or the default."""
    arguments = {"data_dir": data_dir, "prepared_dir": prepared_dir, "results_dir": results_dir}
    return Folders.model_validate({name: path for name, path in arguments.items() if path is not None})
