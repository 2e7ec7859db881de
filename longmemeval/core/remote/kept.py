"""What is kept on this machine of a store: the objects used last, up to a bound."""

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


class KeptObjects:
    """Copies of objects under `.objects` of the folder that stands for a bucket.

    They are looked up by names that tell what is in them, so that none is ever out of date. Beyond the bound those go
    that were used longest ago. Any number of processes may share them.

    Args:
        here: the folder that stands for the bucket.
        limit: bytes that are kept, of all buckets that lie beside it; None: as the environment says.
    """

    def __init__(self, here: Path, limit: int | None = None) -> None:
        self._root = here / _OBJECTS
        self._all = here.parent
        self._limit = cache_bytes() if limit is None else limit
        self._lock = threading.Lock()
        self._held: int | None = None
        """Bytes, about: other processes add and remove too."""
        self._in_use = set[Path]()
        """Directories, which are read at any time as long as this process is there."""

    @property
    def limit(self) -> int:
        """Bytes that are kept."""
        return self._limit

    def has(self, name: str) -> bool:
        """Whether there is a copy."""
        return (self._root / name).is_file()

    def read(self, name: str) -> bytes | None:
        """A copy; None where there is none."""
        path = self._root / name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep a copy. A disk that is full is no reason to fail."""
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
        """The copy of a directory; None where there is none."""
        path = self._root / (name + _FOLDER)
        with suppress(OSError):
            os.utime(path)
            self._in_use.add(path)
            return path
        return None

    def put_folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Keep a directory, which `fill` makes in the empty one it is given, in place of what is there."""
        path = self._root / (name + _FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(suffix=".tmp", dir=path.parent, ignore_cleanup_errors=True) as workplace:
            new = Path(workplace, "new")
            new.mkdir()
            fill(new)
            with suppress(FileNotFoundError):
                # Not removed where it stands: another process may be reading it.
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
        """Remove what was used longest ago; the bytes that are left."""
        copies = sorted(self._copies())
        held = sum(size for _, size, _ in copies)
        for _, size, path in copies:
            if held <= 0.9 * self._limit:
                break
            if path == newest or path in self._in_use:
                continue
            # Who reads it at this moment fetches it again.
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            held -= size
        return held

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """When each was used last, its size, and where it is."""
        for root in self._all.glob(f"*/{_OBJECTS}"):
            for folder, folders, files in os.walk(root):
                for name in [one for one in folders if one.endswith(_FOLDER)]:
                    folders.remove(name)
                    path = Path(folder, name)
                    with suppress(OSError):
                        yield path.stat().st_mtime, _size(path), path
                for name in files:
                    path = Path(folder, name)
                    with suppress(OSError):
                        told = path.stat()
                        yield told.st_mtime, told.st_size, path


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def packed(folder: Path) -> bytes:
    """A directory as the bytes of a tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Fill a directory from such a file.

    Raises:
        OSError, tarfile.TarError: it is damaged, or would write elsewhere.
    """
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
