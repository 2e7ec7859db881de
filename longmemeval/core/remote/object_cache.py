"""Local copies of objects in a store: the most recently used, up to a limit."""

import io
import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from longmemeval.core.remote.places import cache_bytes

_OBJECTS = ".objects"
_FOLDER = ".folder"


class ObjectCache:
    """Copies of objects, in `.objects` of the folder that stands for a bucket.

    Their names derive from their content, so that no copy is ever out of date. Beyond the limit, the least recently
    used copies are removed. Any number of processes may share them.

    Args:
        here: folder that stands for the bucket.
        limit: bytes to keep for all buckets next to it; None: from the environment.
    """

    def __init__(self, here: Path, limit: int | None = None) -> None:
        self._root = here / _OBJECTS
        self._all = here.parent
        self._limit = cache_bytes() if limit is None else limit
        self._lock = threading.Lock()
        self._held: int | None = None
        """Approximate bytes, since other processes add and remove copies too."""
        self._in_use = set[Path]()
        """Directories that this process may read at any time until it ends."""

    @property
    def limit(self) -> int:
        """Number of bytes to keep."""
        return self._limit

    def has(self, name: str) -> bool:
        """Return whether there is a copy."""
        return (self._root / name).is_file()

    def read(self, name: str) -> bytes | None:
        """Return a copy; None if there is none."""
        path = self._root / name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep a copy. A full disk is not an error."""
        path = self._root / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as handle:
                    handle.write(data)
                os.replace(temporary, path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        self._grew(len(data), path)

    def folder(self, name: str) -> Path | None:
        """Return the copy of a directory; None if there is none."""
        path = self._root / (name + _FOLDER)
        with suppress(OSError):
            os.utime(path)
            self._in_use.add(path)
            return path
        return None

    def put_folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Keep a directory that `fill` creates in an empty one; it replaces any existing copy."""
        path = self._root / (name + _FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(suffix=".tmp", dir=path.parent, ignore_cleanup_errors=True) as workplace:
            new = Path(workplace, "new")
            new.mkdir()
            fill(new)
            with suppress(FileNotFoundError):
                # Not removed in place: another process may be reading it.
                path.replace(Path(workplace, "old"))
            new.replace(path)
        self._in_use.add(path)
        self._grew(_size(path), path)
        return path

    def _grew(self, size: int, newest: Path) -> None:
        with self._lock:
            self._held = self._held + size if self._held is not None else self._total()
            if self._held > self._limit:
                self._held = self._trim(newest)

    def _total(self) -> int:
        return sum(size for _, size, _ in self._copies())

    def _trim(self, newest: Path) -> int:
        """Remove the least recently used copies; return the bytes that are left."""
        copies = sorted(self._copies())
        held = sum(size for _, size, _ in copies)
        for _, size, path in copies:
            if held <= 0.9 * self._limit:
                break
            if path == newest or path in self._in_use:
                continue
            # A process that is reading the copy at this moment fetches it again.
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            held -= size
        return held

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of last use, size and path of each copy."""
        for root in self._all.glob(f"*/{_OBJECTS}"):
            for folder, folders, files in os.walk(root):
                for name in [folder for folder in folders if folder.endswith(_FOLDER)]:
                    folders.remove(name)
                    path = Path(folder, name)
                    with suppress(OSError):
                        yield path.stat().st_mtime, _size(path), path
                for name in files:
                    path = Path(folder, name)
                    with suppress(OSError):
                        status = path.stat()
                        yield status.st_mtime, status.st_size, path


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def packed(folder: Path) -> bytes:
    """Return a directory as the bytes of a tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Fill a directory from the bytes of `packed`.

    Raises:
        OSError, tarfile.TarError: the archive is damaged, or would write elsewhere.
    """
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
