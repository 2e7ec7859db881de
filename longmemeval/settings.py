"""Where data, fixtures and results live."""

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Folders(BaseSettings):
    """The folders, from arguments, else `LONGMEMEVAL_DATA_DIR`, `…_PREPARED_DIR`, `…_RESULTS_DIR`, else here."""

    model_config = SettingsConfigDict(env_prefix="LONGMEMEVAL_", frozen=True, extra="forbid")

    data_dir: Path = Path("data")
    prepared_dir: Path = Path("prepared-data")
    results_dir: Path = Path("results")
    memories_dir: Path = Path("installed-memories")
    """Other people's memory systems, each in a virtual environment; `LONGMEMEVAL_MEMORIES_DIR`."""
    stores_dir: Path = Path("memory-stores")
    """Files of databases that facts are queried in, which can be made again; `LONGMEMEVAL_STORES_DIR`."""

    @property
    def cache_dir(self) -> Path:
        """Embeddings and model replies that can be computed again; beside the fixtures, hidden."""
        return self.prepared_dir / ".cache"


def folders(data_dir: Path | None = None, prepared_dir: Path | None = None, results_dir: Path | None = None) -> Folders:
    """The folders in force; None means: from the environment or the default."""
    given = {"data_dir": data_dir, "prepared_dir": prepared_dir, "results_dir": results_dir}
    return Folders(**{name: path for name, path in given.items() if path is not None})
