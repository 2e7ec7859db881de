"""One prepared haystack on disk: a folder of parts, and `meta.json` with their recipes and hashes.

Writing is atomic: a fixture is always the old one or the new one. New parts are written next to the old ones as
`<file>.new`; replacing `meta.json` is the single step that makes them valid; then they are renamed. A process that dies
before that step leaves the old fixture, one that dies after it leaves the new one: a reader takes a part from whichever
of its two files has the hash in `meta.json`. Only one process at a time may write a fixture.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from longmemeval.core.caches import SingleFlightCache
from longmemeval.core.files import is_broken_link, list_folders, safe_name, sha256_bytes, write_atomic
from longmemeval.core.remote.places import PATIENT, Patience, remote_of
from longmemeval.core.remote.store import store_of
from longmemeval.errors import FixtureError, RecallError, nearest
from longmemeval.records import FixtureMeta, PartInfo
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.opaque import RECIPE, HistoryIds, is_foreign, opaque_folder
from longmemeval.storage.part_files import (
    content_of,
    decode_meta,
    new_path,
    part_file,
    part_forms,
    part_path,
    place_new,
    read_file,
    remove,
    settle_new,
    sha256_directory,
    whole_part,
    with_sizes,
)
from longmemeval.storage.parts import Part
from longmemeval.storage.remote_fixtures import fixtures_of

__all__ = [
    "Fixture",
    "check_haystack",
    "check_link",
    "fixture_folder",
    "fixture_folders",
    "has_meta",
    "meta_of",
    "part_file",
    "part_is_there",
    "read_meta",
    "size_of_part",
    "stored_folders",
    "tidy_fixture",
    "write_fixture",
]

META = "meta.json"

T = TypeVar("T")


def fixture_folder(prepared_dir: Path, dataset_name: str, preparation: str, haystack_id: str) -> Path:
    """Return the folder of a haystack's fixture; names from data are escaped."""
    return prepared_dir / safe_name(dataset_name) / safe_name(preparation) / safe_name(haystack_id)


def read_meta(path: Path, patience: Patience = PATIENT) -> FixtureMeta | None:
    """Read `meta.json` of a fixture folder, which may be a link; None if there is none, meaning no fixture.

    Raises:
        FixtureError: it cannot be read, is not a `meta.json`, is of a newer format, or the folder is a broken
            link.
    """
    file = path / META
    remote = remote_of(path, patience)
    data = fixtures_of(remote).meta(remote) if remote else read_file(file)
    if data is None and is_broken_link(path):
        raise _lost(path)
    return None if data is None else decode_meta(data, str(file))


def has_meta(path: Path) -> bool:
    """Return whether there is a fixture, complete or not, without reading it."""
    remote = remote_of(path)
    return bool(fixtures_of(remote).version(remote)) if remote else (path / META).exists()


def meta_of(path: Path, haystack_id: str, patience: Patience = PATIENT) -> FixtureMeta | None:
    """Read `meta.json` like `read_meta`, checking that the fixture belongs to a haystack.

    Raises:
        FixtureError: as by `read_meta`, or the folder holds, or is a link to, the fixture of another haystack.
    """
    meta = read_meta(path, patience)
    if meta:
        check_haystack(path, meta, haystack_id)
    return meta


def check_haystack(path: Path, meta: FixtureMeta, haystack_id: str) -> None:
    """Refuse the fixture of another haystack.

    Raises:
        FixtureError: the folder contains it, or is a link to it.
    """
    if meta.haystack_id != haystack_id:
        holds = "is a link to" if path.is_symlink() else "holds"
        raise FixtureError(
            f"The folder {holds} the fixture of haystack '{meta.haystack_id}'",
            where=str(path),
            fix="Remove it from there and prepare again",
        )


def _lost(path: Path) -> FixtureError:
    return FixtureError(
        "A broken link is in the place of the fixture",
        where=str(path),
        fix="Restore its target, or remove the link and prepare again",
    )


def stored_folders(path: Path) -> Iterable[Path]:
    """Return the sub-folders of a local folder or one in a store, sorted; none if it does not exist."""
    remote = remote_of(path)
    return (path / name for name in store_of(remote).folders(remote.key)) if remote else list_folders(path)


def fixture_folders(root: Path, patience: Patience = PATIENT) -> Iterable[Path]:
    """Return the fixture folders of a preparation; a store lists all of them in one request."""
    remote = remote_of(root, patience)
    return (root / name for name in fixtures_of(remote).look(remote)) if remote else list_folders(root)


def part_is_there(path: Path, name: str, info: PartInfo) -> bool:
    """Return whether a part in `meta.json` has its file or directory, under either name, in full size.

    Its bytes are not read: other damage is found when it is used, or by `verify`.
    """
    if remote := remote_of(path):
        return fixtures_of(remote).has(remote, name, info)
    places = [place for form in part_forms(part_path(path, name, info), info) for place in (form, new_path(form))]
    return any(place.exists() and info.has_size(place.stat().st_size) for place in places)


def size_of_part(path: Path, name: str, info: PartInfo) -> int | None:
    """Return the stored bytes of a part, for a directory the sum over its files; None if unknown."""
    if info.stored_bytes or remote_of(path):
        return info.stored_bytes or None
    with suppress(OSError):
        for form in part_forms(part_path(path, name, info), info):
            for place in (form, new_path(form)):
                if place.is_dir():
                    return sum(file.lstat().st_size for file in place.rglob("*") if not file.is_dir())
                if place.exists():
                    return place.stat().st_size
    return None


class Fixture:
    """A fixture opened for reading. A part is read, checked against its hash and decoded when it is first used.

    Several threads may use it: objects computed from a part are computed once and shared.

    Args:
        path: folder of the fixture.
        meta: its `meta.json`.
        grown: called after each part that is read.
        patience: how long to wait for a store that holds it.
    """

    def __init__(
        self,
        path: Path,
        meta: FixtureMeta,
        grown: Callable[[], None] = lambda: None,
        patience: Patience = PATIENT,
    ) -> None:
        self.path = path
        self.meta = meta
        self._patience = patience
        self.bytes_read = 0
        """Total bytes of all parts read."""
        self._grown = grown
        self._cache = SingleFlightCache[Hashable, Any]()

    @classmethod
    def open(cls, path: Path, patience: Patience = PATIENT) -> "Fixture":
        """Open the fixture in `path`.

        Raises:
            FixtureError: there is none, or its `meta.json` is damaged or of a newer format.
        """
        meta = read_meta(path, patience)
        if meta is None:
            raise FixtureError(
                "This haystack is not prepared",
                where=str(path),
                fix="Run `longmemeval prepare --dataset D --memory M` with the dataset, memory and name meant here",
            )
        return cls(path, meta, patience=patience)

    def read_part(self, name: str) -> bytes:
        """Return the bytes of a part that is a file.

        Raises:
            FixtureError: the fixture has no such part, or it is missing or damaged on disk.
        """
        content = self._whole(name)
        if isinstance(content, Path):
            raise FixtureError(f"Part '{name}' is a directory", where=str(content))
        self.bytes_read += len(content)
        self._grown()
        return content

    def part_folder(self, name: str) -> Path:
        """Return the directory of a directory part. Read only.

        Raises:
            FixtureError: as by `read_part`.
        """
        content = self._whole(name)
        if isinstance(content, bytes):
            raise FixtureError(f"Part '{name}' is not a directory", where=str(self.path))
        return content

    def _whole(self, name: str) -> bytes | Path:
        if name not in self.meta.parts:
            raise FixtureError(
                f"The fixture has no part '{name}'",
                where=str(self.path),
                fix="Run `longmemeval prepare` again with a memory that needs it: it adds what is missing. "
                + nearest(name, self.meta.parts),
            )
        info = self.meta.parts[name]
        remote = remote_of(self.path, self._patience)
        return fixtures_of(remote).part(remote, name, info) if remote else whole_part(self.path, name, info)

    def part(self, part: Part[T]) -> T:
        """Return a part, opened once and cached as long as the fixture is open.

        Raises:
            FixtureError: it is missing or damaged.
            RecallError: it could not be made for this haystack.
        """
        info = part.info(self.meta)
        if info and info.failed:
            raise RecallError(f"Part '{part.name}' of haystack '{self.meta.haystack_id}' failed: {info.failed}")
        return self.cached(("part", part.name), lambda: part.open(StoredPart(self.seen_by(part), part)))

    def seen_by(self, reader: object) -> "Fixture":
        """Return this fixture as the code of `reader` may see it: with opaque ids, unless it is of this package."""
        return OpaqueFixture(self) if is_foreign(reader) else self

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return an object that `make` computes from this fixture (an index, say), once per open fixture.

        Args:
            key: everything that the result depends on, and a name used for nothing else.
            make: must not use the same key.
        """
        value: T = self._cache.get(key, make)
        return value

    @property
    def has_messages(self) -> bool:
        """True if the messages were prepared: not every memory needs them."""
        return MESSAGES.info(self.meta) is not None

    @property
    def memory(self) -> MemoryStore:
        """The messages: `part(MESSAGES)`."""
        return self.part(MESSAGES)


def opaque_ids(fixture: Fixture) -> HistoryIds:
    """Return the opaque ids of a fixture, made once."""
    meta = fixture.meta
    return fixture.cached("opaque ids", lambda: HistoryIds(meta.haystack_id, meta.thread_ids))


class OpaqueFixture(Fixture):
    """A fixture with opaque ids: what is read and computed is kept in the fixture it shows.

    Args:
        own: the fixture with our ids.
    """

    def __init__(self, own: Fixture) -> None:
        self._ids = opaque_ids(own)
        super().__init__(Path(self._ids.haystack_id), self._ids.meta(own.meta))
        self._own = own

    def seen_by(self, reader: object) -> Fixture:
        """Return itself: opaque ids stay opaque."""
        return self

    def read_part(self, name: str) -> bytes:
        """Return the bytes of a part that is a file; those of our parts are translated."""
        data = self._own.read_part(name)
        return data if RECIPE.items() <= self.meta.parts[name].recipe.items() else self._ids.file(data)

    def part_folder(self, name: str) -> Path:
        """Return the directory of a directory part, under another path. Read only."""
        return opaque_folder(self._own.part_folder(name))

    def part(self, part: Part[T]) -> T:
        """Return a part, opened once and cached as long as the fixture is open."""
        info = part.info(self._own.meta)
        return self._own.part(part) if info and info.failed else super().part(part)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return an object that `make` computes from this view, once per open fixture."""
        if key == ("part", MESSAGES.name):
            value: Any = self._own.cached(("opaque", key), self._messages)
            return cast(T, value)
        return self._own.cached(("opaque", key), make)

    def _messages(self) -> MemoryStore:
        own, shown = self._own.memory, MemoryStore(self.meta.resource_id)
        for thread in own.threads:
            names = {"id": self._ids.shown(thread.id), "resource_id": self.meta.resource_id}
            shown.add_thread(structs.replace(thread, **names))
        shown.add_messages(map(self._ids.message, own.messages))
        return shown


@dataclass(frozen=True)
class StoredPart:
    """A part as stored in a fixture; see `Stored`."""

    fixture: Fixture
    definition: Part[Any]

    @property
    def meta(self) -> FixtureMeta:
        """Metadata of the fixture."""
        return self.fixture.meta

    @property
    def info(self) -> PartInfo | None:
        """Hash and recipe; None if the fixture does not have it."""
        return self.definition.info(self.fixture.meta)

    @property
    def where(self) -> str:
        """The file or directory."""
        return str(self.fixture.path / part_file(self._name, directory=self.definition.directory))

    def data(self) -> bytes:
        """Return the file's bytes."""
        return self.fixture.read_part(self._name)

    def folder(self) -> Path:
        """Return the directory."""
        return self.fixture.part_folder(self._name)

    @property
    def _name(self) -> str:
        return self.definition.stored_name(self.fixture.meta)

    def part(self, part: Part[T]) -> T:
        """Return another part of the fixture, opened."""
        return self.fixture.part(part)


def write_fixture(
    path: Path,
    meta: FixtureMeta,
    new_parts: Mapping[str, bytes | Path],
    *,
    compress: bool = False,
    seen: str = "",
    patience: Patience = PATIENT,
) -> FixtureMeta:
    """Create a fixture, or add and replace parts of one, atomically even if the process dies.

    Args:
        path: folder of the fixture; created if needed.
        meta: the new `meta.json`; lists all parts, unchanged ones included.
        new_parts: parts to write, by name: their bytes, or a directory inside `path`, which is moved.
        compress: store byte parts compressed.
        seen: for a fixture in a store on the network, the version of `meta.json` this was planned from.
        patience: how long to wait for that store.

    Returns:
        The `meta.json` as it is now.

    Raises:
        ValueError: `meta` does not list a new part with its hash, or a part is named `meta`.
        FixtureError: a part to keep is missing or damaged, or writing fails (the disk is full, say); the fixture is
            then unchanged.
    """
    if "meta" in new_parts:
        raise ValueError("no part can be named 'meta': meta.json is the fixture's own")
    for name, content in new_parts.items():
        sha256 = sha256_bytes(content) if isinstance(content, bytes) else sha256_directory(content)
        if name not in meta.parts or meta.parts[name].sha256 != sha256:
            raise ValueError(f"meta does not list part {name!r} with the hash of its bytes")
    if remote := remote_of(path, patience):
        return fixtures_of(remote).write(remote, meta, new_parts, compress=compress, seen=seen)
    check_link(path, meta.haystack_id)
    try:
        tidy_fixture(path)
        for name, info in meta.parts.items():
            if name not in new_parts:
                whole_part(path, name, info)
        sizes = {name: place_new(path, name, content, compress=compress) for name, content in new_parts.items()}
        meta = with_sizes(meta, sizes)
        write_atomic(path / META, msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n")
        for name in new_parts:
            settle_new(part_path(path, name, meta.parts[name]), meta.parts[name])
        return meta
    except OSError as error:
        raise FixtureError(
            f"The fixture cannot be written: {error.strerror}",
            where=str(path),
            fix="Fix this and rerun the same `longmemeval prepare`; it continues where it stopped",
        ) from error


def check_link(path: Path, haystack_id: str, meta: FixtureMeta | None = None) -> None:
    """Refuse to write through a broken link, or a link to another haystack's fixture, which would be replaced.

    Args:
        path: folder of the fixture.
        haystack_id: haystack whose fixture will be written.
        meta: its `meta.json`, if it was read.

    Raises:
        FixtureError: `path` is such a link.
    """
    if is_broken_link(path):
        raise _lost(path)
    if path.is_symlink():
        try:
            meta = meta or read_meta(path)
        except FixtureError:
            return  # An unreadable fixture is rebuilt.
        if meta:
            check_haystack(path, meta, haystack_id)


def tidy_fixture(path: Path) -> None:
    """Finish the writing of a process that died: rename valid parts, remove the others."""
    # In a store, writing is valid at once or not at all.
    if remote_of(path) or not _leftovers(path):
        return
    try:
        meta = read_meta(path)
    except FixtureError:
        # It cannot be interpreted; parts to keep are checked by the hash in the new meta.json.
        return
    for name, info in meta.parts.items() if meta else ():
        here = part_path(path, name, info)
        if any(content_of(new_path(form), info)[1] == info.sha256 for form in part_forms(here, info)):
            settle_new(here, info)
    for leftover in _leftovers(path):
        remove(leftover)


def _leftovers(path: Path) -> list[Path]:
    return [*path.glob("*.new"), *path.glob(".*.tmp")]
