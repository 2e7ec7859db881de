"""Fixtures in a store on the network: their parts as objects, recently read ones cached on this machine.

Objects are named like the files of a local fixture. If an object of that name with other content already exists (from
another machine, or from before `--force`), a part is `<part>.<hash>.json`, so that no object is ever replaced by
another one. Parts are written first, then `meta.json` makes them valid, if it is unchanged since the work was planned.
If it has changed, another machine was faster: its parts stay, and missing ones are added. A directory is one object, a
tar file.
"""

import os
import shutil
import tarfile
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import structs

from longmemeval.core.caches import SingleFlightCache
from longmemeval.core.files import safe_name, sha256_bytes
from longmemeval.core.remote.places import PATIENT, Patience, RemoteFolder, remote_of
from longmemeval.core.remote.store import ObjectCache, StoredObject, packed, store_of, unpack
from longmemeval.errors import FixtureError
from longmemeval.records import FixtureMeta, PartInfo
from longmemeval.storage.part_files import (
    REMAKE,
    SUFFIX,
    compressed,
    decode_meta,
    decompressed,
    sha256_directory,
    with_sizes,
)

META = "meta.json"
_HASH = 16
"""Digits of a hash in the name of an object."""
_TRIES = 20


class RemoteFixtures:
    """The fixtures of one bucket, with what this process knows of them.

    Args:
        place: any folder in the bucket.
    """

    def __init__(self, place: RemoteFolder) -> None:
        self.copies = ObjectCache(place.here)
        self._seen: dict[str, dict[str, StoredObject]] = {}
        """Objects by name of each listed folder; nothing is known of other folders."""
        self._looked_at = set[str]()
        self._fetching = SingleFlightCache[str, bytes | Path]()

    def look(self, root: RemoteFolder, *, again: bool = True) -> list[str]:
        """List a preparation and fetch new `meta.json` files; return the names of its fixtures, sorted.

        Args:
            root: folder of the preparation.
            again: list it even if it was listed before.
        """
        if again or root.key not in self._looked_at:
            self.invalidate_listing(root)
            found: dict[str, dict[str, StoredObject]] = {}
            for path, listed in store_of(root).listing(root.key).items():
                folder, _, name = path.rpartition("/")
                if folder and "/" not in folder and not folder.startswith("."):
                    found.setdefault(root.child(folder).key, {})[name] = listed
            self._seen |= found
            self._looked_at.add(root.key)
            metas = {key: names[META].version for key, names in found.items() if META in names}
            names = {f"{key}/{META}": _meta_name(key, version) for key, version in metas.items()}
            new = {path: name for path, name in names.items() if not self.copies.has(name)}
            for path, data in store_of(root).read_many(new):
                self.copies.write(new[path], data)
        start = len(root.key) + 1
        return sorted(key[start:] for key in self._seen if key.startswith(f"{root.key}/"))

    def invalidate_listing(self, root: RemoteFolder) -> None:
        """Invalidate the cached listing of a preparation."""
        self._looked_at.discard(root.key)
        for key in [key for key in self._seen if key.startswith(f"{root.key}/")]:
            del self._seen[key]

    def meta(self, folder: RemoteFolder) -> bytes | None:
        """Return `meta.json` of a fixture; None if there is none."""
        listed = self._seen.get(folder.key, {}).get(META)
        copy = self.copies.read(_meta_name(folder.key, listed.version)) if listed else None
        return store_of(folder).read(f"{folder.key}/{META}") if copy is None else copy

    def version(self, folder: RemoteFolder) -> str:
        """Return the version of `meta.json` in the listing; empty if there was none."""
        listed = self._seen.get(folder.key, {}).get(META)
        return listed.version if listed else ""

    def has(self, folder: RemoteFolder, name: str, info: PartInfo) -> bool:
        """Return whether a part in `meta.json` has an object of its size, by the listing."""
        names = self._seen.get(folder.key)
        return names is None or any(form in names and info.has_size(names[form].size) for form in _forms(name, info))

    def size(self, folder: RemoteFolder, name: str, info: PartInfo) -> int:
        """Return the stored bytes of a part, by the listing; 0 if it is not listed."""
        names = self._seen.get(folder.key, {})
        return max((names[form].size for form in _forms(name, info) if form in names), default=0)

    def part(self, folder: RemoteFolder, name: str, info: PartInfo) -> bytes | Path:
        """Return a part with a valid hash: its bytes, or a local copy of the directory.

        Raises:
            FixtureError: it is missing or damaged, or the store cannot be read.
        """
        key = f"{folder.key}/{_stem(name, info)}"
        try:
            return self._fetching.get(key, lambda: self._part(folder, name, info))
        finally:
            # Waiting callers have received it too, so it need not stay in memory.
            self._fetching.drop(key)

    def _part(self, folder: RemoteFolder, name: str, info: PartInfo) -> bytes | Path:
        copy_name = f"{folder.key}/{_stem(name, info)}"
        for suffix in ("", SUFFIX) if not info.directory else ():
            data = self.copies.read(copy_name + suffix)
            content = _content(data, suffix) if data is not None else None
            if content is not None and sha256_bytes(content) == info.sha256:
                return content
        if info.directory and (path := self.copies.folder(copy_name)) and sha256_directory(path) == info.sha256:
            return path
        exists = False
        for form, data in self._objects(folder, name, info):
            exists = True
            suffix = SUFFIX if form.endswith(SUFFIX) else ""
            content = _content(data, suffix)
            if info.directory and content is not None:
                path = self.copies.put_folder(copy_name, partial(_fill, content, f"{folder}/{form}"))
                if sha256_directory(path) == info.sha256:
                    return path
            elif content is not None and sha256_bytes(content) == info.sha256:
                self.copies.write(copy_name + suffix, data)
                return content
        wrong = "damaged: it does not have the hash that meta.json says" if exists else "missing"
        raise FixtureError(f"Part '{name}' is {wrong}", where=f"{folder}/{_forms(name, info)[0]}", fix=REMAKE)

    def _objects(self, folder: RemoteFolder, name: str, info: PartInfo) -> Iterator[tuple[str, bytes]]:
        """Iterate over the objects that may be a part, listed ones first, then any written since."""
        listed = self._seen.get(folder.key, {})
        for form in sorted(_forms(name, info), key=lambda form: form not in listed):
            if (data := store_of(folder).read(f"{folder.key}/{form}")) is not None:
                yield form, data

    def write(
        self, folder: RemoteFolder, meta: FixtureMeta, parts: Mapping[str, bytes | Path], *, compress: bool, seen: str
    ) -> FixtureMeta:
        """Create a fixture, or add and replace parts of one; return the resulting `meta.json`.

        Args:
            folder: folder of the fixture.
            meta: new `meta.json`; lists all parts.
            parts: new parts.
            compress: store them compressed.
            seen: version of `meta.json` this was planned from; empty: there was none.

        Raises:
            FixtureError: the store cannot be written to, or another machine has stored other data there.
        """
        placed, sizes = dict[str, str](), dict[str, int]()
        for name, content in parts.items():
            placed[name], sizes[name] = self._place(folder, name, meta.parts[name], content, compress)
        meta = with_sizes(meta, sizes)
        current, entered = self._enter(folder, meta, frozenset(parts), seen)
        self._seen.pop(folder.key, None)
        useless, replacing = list[str](), dict[str, str]()
        for name, form in placed.items():
            if name not in entered:
                # Another machine's entry stays; if it is equal to ours, both refer to the same object.
                differs = current.parts[name].sha256 != meta.parts[name].sha256
                useless += [f"{folder.key}/{form}"] if differs else []
            elif seen or form.startswith(_stem(name, meta.parts[name])):
                replacing[name] = form
        existing = store_of(folder).listing(folder.key) if replacing else {}
        for name, form in replacing.items():
            useless += [f"{folder.key}/{other}" for other in _others(existing, name, form)]
        store_of(folder).remove(useless)
        for content in parts.values():
            if isinstance(content, Path):
                shutil.rmtree(content)
        return current

    def _place(
        self, folder: RemoteFolder, name: str, info: PartInfo, content: bytes | Path, compress: bool
    ) -> tuple[str, int]:
        """Write the object of a part; return its name and its bytes."""
        raw = packed(content) if isinstance(content, Path) else content
        data, suffix = (compressed(raw), SUFFIX) if compress else (raw, "")
        copy_name = f"{folder.key}/{_stem(name, info)}"
        if isinstance(content, Path):
            self.copies.put_folder(copy_name, partial(_fill, raw, str(content)))
        else:
            self.copies.write(copy_name + suffix, data)
        plain, own = (form for form in _forms(name, info) if form.endswith(SUFFIX) == compress)
        store = store_of(folder)
        for form in (plain, own):
            if store.create(f"{folder.key}/{form}", data) or store.read(f"{folder.key}/{form}") == data:
                return form, len(data)
        # An object of this name can differ only by damage.
        store.overwrite(f"{folder.key}/{own}", data)
        return own, len(data)

    def _enter(
        self, folder: RemoteFolder, meta: FixtureMeta, new: frozenset[str], seen: str
    ) -> tuple[FixtureMeta, frozenset[str]]:
        """Enter the new parts in `meta.json`; return the resulting content, and the parts entered by this call."""
        key = f"{folder.key}/{META}"
        mine, expected, entered = meta, seen, new
        for _ in range(_TRIES):
            data = msgspec.json.format(msgspec.json.encode(mine), indent=2) + b"\n"
            if store_of(folder).replace(key, data, expected) if expected else store_of(folder).create(key, data):
                return mine, entered
            theirs_now = store_of(folder).listing(folder.key).get(META)
            found = store_of(folder).read(key)
            if theirs_now is None or found is None:
                mine, expected, entered = meta, "", new
                continue
            theirs = decode_meta(found, str(folder))
            if (theirs.dataset.sha256, theirs.haystack_id) != (meta.dataset.sha256, meta.haystack_id):
                raise FixtureError(
                    "Another command has prepared different data here",
                    where=str(folder),
                    fix="Give this preparation its own --prepared NAME",
                )
            lacking = {name: meta.parts[name] for name in sorted(new) if name not in theirs.parts}
            if not lacking:
                return theirs, frozenset()
            mine = structs.replace(theirs, parts=theirs.parts | lacking)
            expected, entered = theirs_now.version, frozenset(lacking)
        raise FixtureError("Other machines keep changing this fixture", where=str(folder), fix="Rerun the command")


def fixtures_of(place: RemoteFolder) -> RemoteFixtures:
    """Return the fixtures of the bucket of `place`; one object per bucket in a process."""
    return _fixtures(place._replace(key="", patience=PATIENT), os.getpid())


@cache
def _fixtures(bucket: RemoteFolder, process: int) -> RemoteFixtures:
    return RemoteFixtures(bucket)


def invalidate_listing(root: Path) -> None:
    """Invalidate the cached listing of a preparation in a store: another process may have written to it since."""
    if remote := remote_of(root):
        fixtures_of(remote).invalidate_listing(remote)


def refresh_listing(root: Path, *, again: bool = True, patience: Patience = PATIENT) -> None:
    """List a preparation in a store, so that queries about its fixtures need no further requests.

    A local preparation is ignored.

    Args:
        root: folder of the preparation.
        again: list it even if it was listed before.
        patience: how long to wait for the store.
    """
    if remote := remote_of(root, patience):
        fixtures_of(remote).look(remote, again=again)


def meta_version(folder: Path) -> str:
    """Return the listed version of a fixture's `meta.json` in a store; empty if not listed, and for local ones."""
    remote = remote_of(folder)
    return fixtures_of(remote).version(remote) if remote else ""


def _stem(name: str, info: PartInfo) -> str:
    return f"{safe_name(name)}.{info.sha256[:_HASH]}{'.tar' if info.directory else '.json'}"


def _others(existing: Collection[str], name: str, form: str) -> list[str]:
    """Return the objects in `existing` that belonged to earlier versions of a part."""
    stem, suffixes = safe_name(name), (".json", ".json" + SUFFIX, ".tar", ".tar" + SUFFIX)
    forms = {
        key
        for key in existing
        for suffix in suffixes
        if key == stem + suffix or (key.startswith(stem + ".") and key[len(stem) + 1 + _HASH :] == suffix)
    }
    return sorted(forms - {form})


def _forms(name: str, info: PartInfo) -> list[str]:
    """Return the possible names of a part's object."""
    plain = safe_name(name) + (".tar" if info.directory else ".json")
    own = _stem(name, info)
    return [plain, own, plain + SUFFIX, own + SUFFIX]


def _meta_name(key: str, version: str) -> str:
    return f"{key}/meta.{quote(version, safe='')}.json"


def _content(data: bytes, suffix: str) -> bytes | None:
    return decompressed(data) if suffix else data


def _fill(data: bytes, where: str, folder: Path) -> None:
    """Fill a directory from a tar file."""
    try:
        unpack(data, folder)
    except tarfile.TarError as error:
        raise FixtureError(f"The tar file cannot be unpacked: {error}", where=where, fix=REMAKE) from error
    except OSError as error:
        raise FixtureError(
            f"The copy of a part cannot be kept on this machine: {error.strerror}",
            where=str(folder.parent.parent),
            fix="Make room there, or set LONGMEMEVAL_REMOTE_CACHE_DIR to a folder on another disk, and rerun the "
            "command",
        ) from error
