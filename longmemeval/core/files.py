"""Writing files that are complete or absent, hashing them, and turning ids into safe file names."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

_MAX_NAME = 120
_unfinished: set[Path] = set()
"""Temporary files that are being written."""


def sha256_bytes(data: bytes) -> str:
    """Return the hash of `data`, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_text(text: str) -> str:
    """Return the hash of `text` in UTF-8, 64 hexadecimal digits."""
    return sha256_bytes(text.encode())


def sha256_file(path: Path) -> str:
    """Return the hash of a file's bytes, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old content or the new, never a part; see `replacing`."""
    with replacing(path) as handle:
        handle.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` when the block ends, for content too large for memory.

    Goes through a temporary file in the same folder, flushed to disk and renamed.
    On failure (a full disk, say) the temporary file is removed and `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    _unfinished.add(temporary)
    try:
        with os.fdopen(descriptor, "w+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(temporary)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes killed while replacing `path`; only for the sole writer of `path`."""
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        temporary.unlink(missing_ok=True)


def remove_unfinished() -> None:
    """Remove the temporary files of `replacing`, for a process that ends while writing them."""
    for temporary in list(_unfinished):
        temporary.unlink(missing_ok=True)


def safe_name(identifier: str) -> str:
    """Return a file name for an id from the data: no separators, never `.` or `..`, never hidden.

    At most 120 characters. Letters, digits, `_`, `-` and inner dots stay; everything else is percent-encoded, so
    distinct ids keep distinct names. A name that would be too long ends in a hash of the whole id.
    """
    # `~` marks a shortened name and a lone `%` is not an escape: neither can come from another id.
    name = quote(identifier, safe="").replace("~", "%7E") or "%"
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 17]}~{sha256_text(identifier)[:16]}"
    return name


def is_read_only(folder: Path) -> bool:
    """Return whether a folder exists and cannot be written to."""
    return folder.is_dir() and not os.access(folder, os.W_OK)


def is_broken_link(path: Path) -> bool:
    """Return whether `path` is a symbolic link to a missing target, or to itself."""
    return path.is_symlink() and not path.exists()


def list_folders(path: Path) -> Iterator[Path]:
    """Yield the sub-folders of `path` in order of name; none if it does not exist."""
    if path.is_dir():
        yield from sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
