"""Parquet files, by pyarrow, which comes with the extra `pandas`."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longmemeval.errors import DataError, HarnessError

if TYPE_CHECKING:
    import pyarrow

MAGIC = b"PAR1"
"""The first bytes of every Parquet file."""

_NO_PYARROW = "Parquet needs the pyarrow library, which is not installed"
_INSTALL = "Run: pip install 'longmemeval[pandas]', or "


def parquet_keys(path: Path) -> frozenset[str]:
    """Return the names of a file's columns; raises as `parquet_rows`."""
    return frozenset(_read(path).schema.names)


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, by column.

    Raises:
        DataError: it cannot be read.
        HarnessError: pyarrow is not installed.
    """
    return _read(path).to_pylist()


def _read(path: Path) -> "pyarrow.Table":
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        fix = f"{_INSTALL}convert the file to JSON, a list of its rows"
        raise HarnessError(_NO_PYARROW, where=str(path), fix=fix) from error
    try:
        return parquet.read_table(path)
    except (OSError, ArrowException) as error:
        what = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"The Parquet file cannot be read: {what}", where=str(path), fix="Fetch it again") from error


def parquet_bytes(columns: Mapping[str, tuple[str, list[object]]]) -> bytes:
    """Return a table as a Parquet file; a column has its type even where nothing in it is known.

    Args:
        columns: title -> form (`text`, `integer`, `number` or `truth`) and values.

    Raises:
        HarnessError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise HarnessError(_NO_PYARROW, fix=f"{_INSTALL}choose --format jsonl") from error
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "truth": pyarrow.bool_(),
    }
    written = io.BytesIO()
    arrays = {title: pyarrow.array(values, types[form]) for title, (form, values) in columns.items()}
    parquet.write_table(pyarrow.table(arrays), written)
    return written.getvalue()
