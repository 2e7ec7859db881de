"""One prepared haystack on disk: a folder of parts and `meta.json`, which says what they are and their hashes.

Writing never leaves a fixture that is neither the old one nor the new one. New parts are written beside the old
under `<file>.new`; replacing `meta.json` is the one step that makes them count; then they get their names. A process
that dies before that step leaves the old fixture, one that dies after it leaves the new one: reading takes a part from
whichever of its two files has the hash that `meta.json` names. One process at a time may write a fixture.
"""

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from longmemeval.errors import FixtureError, nearest
from longmemeval.files import leads_nowhere, safe_name, sha256_bytes, write_atomic
from longmemeval.records import FixtureMeta
from longmemeval.shared_cache import SharedCache
from longmemeval.storage.format import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.vector_file import EmbedderIdentity, VectorFile
from longmemeval.storage.vector_store import VectorStore

__all__ = [
    "FORMAT",
    "Fixture",
    "check_link",
    "fixture_folder",
    "meta_of",
    "part_file",
    "read_meta",
    "tidy_fixture",
    "write_fixture",
]

_META = "meta.json"

T = TypeVar("T")


def fixture_folder(prepared_dir: Path, dataset_name: str, preparation: str, haystack_id: str) -> Path:
    """Where the fixture of a haystack lives; names from data are escaped."""
    return prepared_dir / safe_name(dataset_name) / safe_name(preparation) / safe_name(haystack_id)


def part_file(name: str) -> str:
    """The file name of a part: `db` is in `db.json`."""
    return f"{safe_name(name)}.json"


def read_meta(path: Path) -> FixtureMeta | None:
    """`meta.json` of a fixture folder, which may be a link; None if there is none, which means: no fixture.

    Raises:
        FixtureError: it cannot be read, is not a `meta.json`, is of a newer format, or the folder is a link that leads
            nowhere.
    """
    file = path / _META
    data = _read(file)
    if data is None and leads_nowhere(path):
        raise _lost(path)
    return None if data is None else decode_versioned(data, FixtureMeta, str(file))


def meta_of(path: Path, haystack_id: str) -> FixtureMeta | None:
    """`read_meta`, where the fixture has to be that of a haystack.

    Raises:
        FixtureError: as `read_meta`, or the folder holds, or is a link to, the fixture of another haystack.
    """
    meta = read_meta(path)
    if meta is not None and meta.haystack_id != haystack_id:
        raise _misplaced(path, meta)
    return meta


def _lost(path: Path) -> FixtureError:
    return FixtureError(
        "A link that leads nowhere stands in the place of the fixture",
        where=str(path),
        fix="Put back what it leads to, or remove the link and prepare again",
    )


def _misplaced(path: Path, meta: FixtureMeta) -> FixtureError:
    holds = "is a link to" if path.is_symlink() else "holds"
    return FixtureError(
        f"The folder {holds} the fixture of haystack '{meta.haystack_id}'",
        where=str(path),
        fix="Remove it from there and prepare again",
    )


class Fixture:
    """A fixture opened for reading. A part is read, checked against its hash and decoded when it is first used.

    Several threads may use it: whatever is made of a part is made once and shared.

    Args:
        path: the fixture's folder.
        meta: its `meta.json`.
    """

    def __init__(self, path: Path, meta: FixtureMeta) -> None:
        self.path = path
        self.meta = meta
        self.bytes_read = 0
        """Of all parts that were read."""
        self._kept = SharedCache[Hashable, Any]()

    @classmethod
    def open(cls, path: Path) -> "Fixture":
        """Open the fixture in `path`.

        Raises:
            FixtureError: there is none, or its `meta.json` is damaged or of a newer format.
        """
        meta = read_meta(path)
        if meta is None:
            raise FixtureError(
                "This haystack is not prepared",
                where=str(path),
                fix="Run `longmemeval prepare --dataset D --memory M` with the data set, memory and --name meant here",
            )
        return cls(path, meta)

    def read_part(self, name: str) -> bytes:
        """The bytes of a part.

        Raises:
            FixtureError: the fixture has no such part, or it is missing or damaged on disk.
        """
        if name not in self.meta.parts:
            raise FixtureError(
                f"The fixture has no part '{name}'",
                where=str(self.path),
                fix="Run `longmemeval prepare` again with a memory that needs it: it adds what is missing. "
                + nearest(name, self.meta.parts),
            )
        data = _read_whole(self.path, name, self.meta.parts[name].sha256)
        self.bytes_read += len(data)
        return data

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes of this fixture (an index, say): made once, and kept as long as the fixture is.

        Args:
            key: everything that decides the result, and a name that nothing else is kept by.
            make: must not ask for the same key.
        """
        value: T = self._kept.get(key, make)
        return value

    @property
    def memory(self) -> MemoryStore:
        """The messages, from part `db`."""
        return self.kept("memory", self._open_memory)

    def _open_memory(self) -> MemoryStore:
        where = str(self.path / part_file("db"))
        store = MemoryStore.hydrate(self.read_part("db"), where)
        if store.resource.id != self.meta.resource_id:
            raise FixtureError(
                f"The part belongs to '{store.resource.id}', the fixture to '{self.meta.resource_id}'",
                where=where,
                fix=REMAKE,
            )
        return store

    @property
    def vectors(self) -> VectorStore:
        """The index over the messages, from part `vector`."""
        return self.kept("vectors", self._open_vectors)

    def _open_vectors(self) -> VectorStore:
        file, where = self._vector_file, str(self.path / part_file("vector"))
        known = self.memory.positions
        stranger = next((item.id for item in file.items if item.id not in known), None)
        if stranger is not None:
            raise FixtureError(f"The index holds message '{stranger}', which db.json does not", where=where, fix=REMAKE)
        return VectorStore.from_file(file, where)

    @property
    def embedder(self) -> EmbedderIdentity:
        """The embedder that made the vectors; a query must be embedded by the same."""
        return self._vector_file.embedder

    @property
    def index_name(self) -> str:
        """The name of the index in `vectors`."""
        return self._vector_file.index.name

    @property
    def _vector_file(self) -> VectorFile:
        where = str(self.path / part_file("vector"))
        return self.kept("vector file", lambda: VectorFile.decode(self.read_part("vector"), where))


def write_fixture(path: Path, meta: FixtureMeta, new_parts: Mapping[str, bytes]) -> None:
    """Make a fixture, or add and replace parts of one. Dying at any moment leaves the old fixture or the new one.

    Args:
        path: the fixture's folder; made when needed.
        meta: the new `meta.json`; lists all parts, those that stay included.
        new_parts: the parts to write, by name.

    Raises:
        ValueError: `meta` does not list a new part with its hash, or a part is named `meta`.
        FixtureError: a part that is to stay is missing or damaged, or the disk refuses (full, say); the fixture is
            then as it was.
    """
    if "meta" in new_parts:
        raise ValueError("no part can be named 'meta': meta.json is the fixture's own")
    for name, data in new_parts.items():
        if name not in meta.parts or meta.parts[name].sha256 != sha256_bytes(data):
            raise ValueError(f"meta does not list part {name!r} with the hash of its bytes")
    check_link(path, meta.haystack_id)
    try:
        tidy_fixture(path)
        for name, info in meta.parts.items():
            if name not in new_parts:
                _read_whole(path, name, info.sha256)
        for name, data in new_parts.items():
            write_atomic(_new_file(path, name), data)
        write_atomic(path / _META, msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n")
        for name in new_parts:
            _new_file(path, name).replace(path / part_file(name))
    except OSError as error:
        raise FixtureError(
            f"The fixture cannot be written: {error.strerror}",
            where=str(path),
            fix="Mend that and run the same `longmemeval prepare` again: it goes on where it stopped",
        ) from error


def check_link(path: Path, haystack_id: str) -> None:
    """Refuse to write through a link to another haystack's fixture, which would replace that, or to nowhere.

    Args:
        path: the fixture's folder.
        haystack_id: whose fixture is to be written.

    Raises:
        FixtureError: `path` is such a link.
    """
    if leads_nowhere(path):
        raise _lost(path)
    if path.is_symlink():
        try:
            meta = read_meta(path)
        except FixtureError:
            return  # What cannot be read is made again.
        if meta and meta.haystack_id != haystack_id:
            raise _misplaced(path, meta)


def tidy_fixture(path: Path) -> None:
    """Complete the writing of a process that died: name the parts that count, remove what does not."""
    try:
        meta = read_meta(path)
    except FixtureError:
        # Nothing can be told from it; a part that is to stay is checked by the hash the new meta.json gives it.
        return
    for name, info in meta.parts.items() if meta else ():
        new = _new_file(path, name)
        data = _read(new)
        if data is not None and sha256_bytes(data) == info.sha256:
            new.replace(path / part_file(name))
    for leftover in [*path.glob("*.new"), *path.glob(".*.tmp")]:
        leftover.unlink()


def _new_file(path: Path, name: str) -> Path:
    return path / f"{part_file(name)}.new"


def _read_whole(path: Path, name: str, sha256: str) -> bytes:
    """A part whose hash holds, from `<file>.new` or `<file>`."""
    file = path / part_file(name)
    # `.new` first: a writer renames in that direction, so a part cannot slip past a reader that looks at both.
    for candidate in (_new_file(path, name), file):
        data = _read(candidate)
        if data is not None and sha256_bytes(data) == sha256:
            return data
    data = _read(file)
    if data is None:
        raise FixtureError(f"Part '{name}' is missing", where=str(file), fix=REMAKE)
    raise FixtureError(
        f"Part '{name}' is damaged: its sha256 begins {sha256_bytes(data)[:12]}, meta.json says {sha256[:12]}",
        where=str(file),
        fix=REMAKE,
    )


def _read(file: Path) -> bytes | None:
    """A file's bytes; None if there is no such file."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FixtureError(f"The file cannot be read: {error.strerror}", where=str(file)) from error
