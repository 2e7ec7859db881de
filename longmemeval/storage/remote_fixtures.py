"""Fixtures in a store on the network: their parts as objects, those read last kept on this machine.

The objects are named as the files of a local fixture are. A part of other content than the object that has its name
already (of another machine, or from before `--force`) is `<part>.<hash>.json`, so that no object is ever another
one's. Parts are written first, then `meta.json` makes them count, if it is still as it was when the work was planned.
If it is not, another machine was quicker: its parts stay, and what they lack is added to them. A directory is one
object, a tar file.
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

from longmemeval.core.caches.single_flight import SingleFlightCache
from longmemeval.core.files import safe_name, sha256_bytes
from longmemeval.core.remote.kept import KeptObjects, packed, unpack
from longmemeval.core.remote.places import RemoteFolder, remote_of
from longmemeval.core.remote.store import Store, StoredObject, store_of
from longmemeval.errors import FixtureError
from longmemeval.records import FixtureMeta, PartInfo
from longmemeval.storage.compression import SUFFIX, compressed, decompressed
from longmemeval.storage.format import REMAKE, decode_versioned
from longmemeval.storage.part_files import sha256_directory, with_sizes

META = "meta.json"
_HASH = 16
"""Digits of a hash in the name of an object."""
_TRIES = 20


class RemoteFixtures:
    """The fixtures of one bucket, as this process knows them.

    Args:
        place: any folder in it.
    """

    def __init__(self, place: RemoteFolder) -> None:
        self.store: Store = store_of(place)
        self.kept = KeptObjects(place.here)
        self._seen: dict[str, dict[str, StoredObject]] = {}
        """Of folders that were listed: their objects by name. Of others nothing is known."""
        self._looked_at = set[str]()
        self._fetching = SingleFlightCache[str, bytes | Path]()

    def look(self, root: RemoteFolder, *, again: bool = True) -> list[str]:
        """List a preparation and fetch what is new of its `meta.json`; the names of its fixtures, in their order.

        Args:
            root: the folder of the preparation.
            again: even if that was done.
        """
        if again or root.key not in self._looked_at:
            self.invalidate_listing(root)
            found: dict[str, dict[str, StoredObject]] = {}
            for path, told in self.store.listing(root.key).items():
                folder, _, name = path.rpartition("/")
                if folder and "/" not in folder and not folder.startswith("."):
                    found.setdefault(root.child(folder).key, {})[name] = told
            self._seen |= found
            self._looked_at.add(root.key)
            metas = {key: names[META].version for key, names in found.items() if META in names}
            names = {f"{key}/{META}": _meta_name(key, version) for key, version in metas.items()}
            new = {path: name for path, name in names.items() if not self.kept.has(name)}
            for path, data in self.store.read_many(new):
                self.kept.write(new[path], data)
        start = len(root.key) + 1
        return sorted(key[start:] for key in self._seen if key.startswith(f"{root.key}/"))

    def invalidate_listing(self, root: RemoteFolder) -> None:
        """Believe no earlier listing of a preparation."""
        self._looked_at.discard(root.key)
        for key in [key for key in self._seen if key.startswith(f"{root.key}/")]:
            del self._seen[key]

    def meta(self, folder: RemoteFolder) -> bytes | None:
        """`meta.json` of a fixture; None where there is none."""
        told = self._seen.get(folder.key, {}).get(META)
        kept = self.kept.read(_meta_name(folder.key, told.version)) if told else None
        return self.store.read(f"{folder.key}/{META}") if kept is None else kept

    def version(self, folder: RemoteFolder) -> str:
        """Which `meta.json` was listed; empty where none was."""
        told = self._seen.get(folder.key, {}).get(META)
        return told.version if told else ""

    def has(self, folder: RemoteFolder, name: str, info: PartInfo) -> bool:
        """Return whether a part that `meta.json` names has an object of its size, as listed."""
        names = self._seen.get(folder.key)
        return names is None or any(form in names and info.has_size(names[form].size) for form in _forms(name, info))

    def size(self, folder: RemoteFolder, name: str, info: PartInfo) -> int:
        """Bytes of a part as it is stored, where that was listed; else 0."""
        names = self._seen.get(folder.key, {})
        return max((names[form].size for form in _forms(name, info) if form in names), default=0)

    def part(self, folder: RemoteFolder, name: str, info: PartInfo) -> bytes | Path:
        """A part whose hash holds: its bytes, or a local copy of the directory.

        Raises:
            FixtureError: it is missing or damaged, or the store cannot be read.
        """
        key = f"{folder.key}/{_stem(name, info)}"
        try:
            return self._fetching.get(key, lambda: self._part(folder, name, info))
        finally:
            # Who asked meanwhile has it too; it is not held for longer.
            self._fetching.drop(key)

    def _part(self, folder: RemoteFolder, name: str, info: PartInfo) -> bytes | Path:
        kept = f"{folder.key}/{_stem(name, info)}"
        for suffix in ("", SUFFIX) if not info.directory else ():
            data = self.kept.read(kept + suffix)
            content = _content(data, suffix) if data is not None else None
            if content is not None and sha256_bytes(content) == info.sha256:
                return content
        if info.directory and (path := self.kept.folder(kept)) and sha256_directory(path) == info.sha256:
            return path
        there = False
        for form, data in self._objects(folder, name, info):
            there = True
            suffix = SUFFIX if form.endswith(SUFFIX) else ""
            content = _content(data, suffix)
            if info.directory and content is not None:
                path = self.kept.put_folder(kept, partial(_fill, content, f"{folder}/{form}"))
                if sha256_directory(path) == info.sha256:
                    return path
            elif content is not None and sha256_bytes(content) == info.sha256:
                self.kept.write(kept + suffix, data)
                return content
        wrong = "damaged: it does not have the hash that meta.json says" if there else "missing"
        raise FixtureError(f"Part '{name}' is {wrong}", where=f"{folder}/{_forms(name, info)[0]}", fix=REMAKE)

    def _objects(self, folder: RemoteFolder, name: str, info: PartInfo) -> Iterator[tuple[str, bytes]]:
        """The objects that may be a part, the listed ones first: one that was written since is found too."""
        listed = self._seen.get(folder.key, {})
        for form in sorted(_forms(name, info), key=lambda form: form not in listed):
            if (data := self.store.read(f"{folder.key}/{form}")) is not None:
                yield form, data

    def write(
        self, folder: RemoteFolder, meta: FixtureMeta, parts: Mapping[str, bytes | Path], *, compress: bool, seen: str
    ) -> None:
        """Make a fixture, or add and replace parts of one.

        Args:
            folder: the fixture's.
            meta: as it is to be; lists all parts.
            parts: the new ones.
            compress: store them compressed.
            seen: the version of `meta.json` from which this was planned; empty: there was none.

        Raises:
            FixtureError: the store cannot be written to, or another machine has put other data there.
        """
        placed, sizes = dict[str, str](), dict[str, int]()
        for name, content in parts.items():
            placed[name], sizes[name] = self._place(folder, name, meta.parts[name], content, compress)
        meta = with_sizes(meta, sizes)
        counts, entered = self._enter(folder, meta, frozenset(parts), seen)
        self._seen.pop(folder.key, None)
        useless, replacing = list[str](), dict[str, str]()
        for name, form in placed.items():
            if name not in entered:
                # What another machine entered stays as it is; of two equal ones both may.
                differs = counts.parts[name].sha256 != meta.parts[name].sha256
                useless += [f"{folder.key}/{form}"] if differs else []
            elif seen or form.startswith(_stem(name, meta.parts[name])):
                replacing[name] = form
        there = self.store.listing(folder.key) if replacing else {}
        for name, form in replacing.items():
            useless += [f"{folder.key}/{one}" for one in _others(there, name, form)]
        self.store.remove(useless)
        for content in parts.values():
            if isinstance(content, Path):
                shutil.rmtree(content)

    def _place(
        self, folder: RemoteFolder, name: str, info: PartInfo, content: bytes | Path, compress: bool
    ) -> tuple[str, int]:
        """Write the object of a part; its name, and its bytes."""
        raw = packed(content) if isinstance(content, Path) else content
        data, suffix = (compressed(raw), SUFFIX) if compress else (raw, "")
        kept = f"{folder.key}/{_stem(name, info)}"
        if isinstance(content, Path):
            self.kept.put_folder(kept, partial(_fill, raw, str(content)))
        else:
            self.kept.write(kept + suffix, data)
        plain, own = (form for form in _forms(name, info) if form.endswith(SUFFIX) == compress)
        for form in (plain, own):
            if self.store.create(f"{folder.key}/{form}", data) or self.store.read(f"{folder.key}/{form}") == data:
                return form, len(data)
        # Only damage can make what has this name differ.
        self.store.overwrite(f"{folder.key}/{own}", data)
        return own, len(data)

    def _enter(
        self, folder: RemoteFolder, meta: FixtureMeta, new: frozenset[str], seen: str
    ) -> tuple[FixtureMeta, frozenset[str]]:
        """Have `meta.json` name the new parts; what it says then, and which of them it names because of this."""
        key = f"{folder.key}/{META}"
        mine, expected, entered = meta, seen, new
        for _ in range(_TRIES):
            data = msgspec.json.format(msgspec.json.encode(mine), indent=2) + b"\n"
            if self.store.replace(key, data, expected) if expected else self.store.create(key, data):
                return mine, entered
            theirs_now = self.store.listing(folder.key).get(META)
            found = self.store.read(key)
            if theirs_now is None or found is None:
                mine, expected, entered = meta, "", new
                continue
            theirs = decode_versioned(found, FixtureMeta, str(folder))
            if (theirs.dataset.sha256, theirs.haystack_id) != (meta.dataset.sha256, meta.haystack_id):
                raise FixtureError(
                    "Another command has prepared other data here meanwhile",
                    where=str(folder),
                    fix="Give this preparation a --name of its own",
                )
            lacking = {name: meta.parts[name] for name in sorted(new) if name not in theirs.parts}
            if not lacking:
                return theirs, frozenset()
            mine = structs.replace(theirs, parts=theirs.parts | lacking)
            expected, entered = theirs_now.version, frozenset(lacking)
        raise FixtureError("Other machines keep changing this fixture", where=str(folder), fix="Rerun the command")


def fixtures_of(place: RemoteFolder) -> RemoteFixtures:
    """The fixtures of the bucket of `place`; one object for each in a process."""
    return _fixtures(place._replace(key=""), os.getpid())


@cache
def _fixtures(bucket: RemoteFolder, process: int) -> RemoteFixtures:
    return RemoteFixtures(bucket)


def be_patient(root: Path, give_up_after_s: float, *, is_there: bool = False) -> None:
    """Set how long the store that a preparation is in may return nothing but failures.

    Args:
        root: the folder of the preparation, or any other in the store; nothing is done where it is local.
        give_up_after_s: seconds.
        is_there: see `Store.be_patient`.
    """
    if remote := remote_of(root):
        store_of(remote).be_patient(give_up_after_s, is_there=is_there)


def invalidate_listing(root: Path) -> None:
    """Believe no earlier listing of a preparation, where it is in a store: others may have written to it since."""
    if remote := remote_of(root):
        fixtures_of(remote).invalidate_listing(remote)


def refresh_listing(root: Path, *, again: bool = True) -> None:
    """List a preparation that is in a store, so that what is asked of its fixtures needs no further request each.

    Args:
        root: its folder.
        again: even if that was done.
    """
    if remote := remote_of(root):
        fixtures_of(remote).look(remote, again=again)


def meta_version(folder: Path) -> str:
    """Which `meta.json` of a fixture in a store was listed; empty where none was, and for local ones."""
    remote = remote_of(folder)
    return fixtures_of(remote).version(remote) if remote else ""


def _stem(name: str, info: PartInfo) -> str:
    return f"{safe_name(name)}.{info.sha256[:_HASH]}{'.tar' if info.directory else '.json'}"


def _others(there: Collection[str], name: str, form: str) -> list[str]:
    """The objects that a part had before, of those that are there."""
    stem, suffixes = safe_name(name), (".json", ".json" + SUFFIX, ".tar", ".tar" + SUFFIX)
    forms = {
        one
        for one in there
        for suffix in suffixes
        if one == stem + suffix or (one.startswith(stem + ".") and one[len(stem) + 1 + _HASH :] == suffix)
    }
    return sorted(forms - {form})


def _forms(name: str, info: PartInfo) -> list[str]:
    """The names that an object of a part may have."""
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
