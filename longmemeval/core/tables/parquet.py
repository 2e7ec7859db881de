"""Parquet files, read and written by pyarrow, which comes with the extra `pandas`."""

import io
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from longmemeval.core.installation import install_command
from longmemeval.errors import DataError, needed

if TYPE_CHECKING:
    import pyarrow

MAGIC = b"PAR1"
"""The first bytes of every Parquet file."""


def parquet_keys(path: Path) -> frozenset[str]:
    """Return the names of a file's columns; raise the errors of `parquet_rows`."""
    return frozenset(_read(path).schema.names)


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, each a mapping by column.

    Raises:
        DataError: it cannot be read.
        HarnessError: pyarrow is not installed.
    """
    return _read(path).to_pylist()


def _read(path: Path) -> "pyarrow.Table":
    library = _pyarrow("convert the file to JSON, a list of its rows", str(path))
    try:
        table: pyarrow.Table = library.parquet.read_table(path)
    except (OSError, library.ArrowException) as error:
        what = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"The Parquet file cannot be read: {what}", where=str(path), fix="Download it again") from error
    return table


def parquet_bytes(columns: Mapping[str, tuple[str, list[object]]]) -> bytes:
    """Return a table as a Parquet file; a column has its type even if all its values are unknown.

    Args:
        columns: title to form (`text`, `integer`, `number` or `truth`) and values.

    Raises:
        HarnessError: pyarrow is not installed.
    """
    library = _pyarrow("choose --format jsonl")
    types = {
        "text": library.string(),
        "integer": library.int64(),
        "number": library.float64(),
        "truth": library.bool_(),
    }
    written = io.BytesIO()
    arrays = {title: library.array(values, types[form]) for title, (form, values) in columns.items()}
    library.parquet.write_table(library.table(arrays), written)
    return written.getvalue()


def _pyarrow(instead: str, where: str = "") -> ModuleType:
    fix = f"Run: {install_command('pandas')}, or {instead}"
    with needed("Parquet needs the pyarrow library, which is not installed", fix, where=where):
        import pyarrow.parquet
    return pyarrow
