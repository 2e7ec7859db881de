"""Files and directories of a fixture's parts: their names, hashes, and the replacement of old ones by new ones."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeVar

from msgspec import Struct, structs

from longmemeval.core.files import safe_name, sha256_bytes, sha256_file, sha256_text, write_atomic
from longmemeval.core.installation import install_command
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import FixtureError, needed
from longmemeval.records import FixtureMeta, PartInfo

# Parts stored compressed, as `<part>.json.zst`. Hashes are always of the uncompressed content.

SUFFIX = ".zst"
_LEVEL = 3


def compressed(data: bytes) -> bytes:
    """Compress `data` to one zstd frame that records its length.

    Raises:
        FixtureError: zstandard is not installed.
    """
    return bytes(zstandard().ZstdCompressor(level=_LEVEL).compress(data))


def decompressed(data: bytes) -> bytes | None:
    """Return the input of `compressed`; None if `data` is damaged.

    Raises:
        FixtureError: zstandard is not installed.
    """
    library = zstandard()
    try:
        return bytes(library.ZstdDecompressor().decompress(data))
    except library.ZstdError:
        return None


def zstandard() -> ModuleType:
    """Return the compression package.

    Raises:
        FixtureError: zstandard is not installed.
    """
    what = "Compressed parts need the package zstandard, which is not installed"
    with needed(what, f"Run: {install_command('zstd')}", kind=FixtureError):
        import zstandard as library
    return library


# Common format of a fixture's JSON files: the format number, and decoding with errors that name the file.

FORMAT = 1
"""Format of the parts: the same since the first version, so that their hashes stay the same."""
META_FORMAT = 2
"""Format of `meta.json`; format 1, of version 0.2, is read too."""

REMAKE = "Run `longmemeval prepare --force` with the same dataset and memory to rebuild this fixture"


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


class _Version(Struct):
    format: int


V = TypeVar("V", bound=_Versioned)


def decode_versioned(data: bytes, shape: type[V], where: str, newest: int = FORMAT) -> V:
    """Decode one file of a fixture.

    Args:
        shape: struct to decode to; it has a field `format`.
        where: the file, for the error.
        newest: the newest supported format.

    Raises:
        FixtureError: the format is newer, or the content does not match it.
    """
    try:
        value = decode_json(data, shape)
    except UnreadableError as error:
        _check_format(_format_of(data), newest, where)
        raise FixtureError(f"The file is not a valid part of a fixture: {error}", where=where, fix=REMAKE) from error
    _check_format(value.format, newest, where)
    return value


def decode_meta(data: bytes, where: str) -> FixtureMeta:
    """Decode `meta.json`.

    Args:
        where: the file, for the error.

    Raises:
        FixtureError: as by `decode_versioned`.
    """
    return decode_versioned(data, FixtureMeta, where, META_FORMAT)


def _format_of(data: bytes) -> int:
    """Return the format number of a file that does not decode; `FORMAT` if even that is unreadable."""
    try:
        return decode_json(data, _Version).format
    except UnreadableError:
        return FORMAT


def _check_format(number: int, newest: int, where: str) -> None:
    if number > newest:
        raise FixtureError(
            f"format {number} is newer than this version understands ({newest}): upgrade longmemeval", where=where
        )
    if number < 1:
        raise FixtureError(f"Unknown fixture format {number}", where=where, fix=REMAKE)


_NEW = ".new"


def part_file(name: str, *, directory: bool = False) -> str:
    """Return the file name of a part: `db` is in `db.json`, a directory has just its name."""
    return safe_name(name) if directory else f"{safe_name(name)}.json"


def part_path(fixture: Path, name: str, info: PartInfo) -> Path:
    """Return the path of a part in a fixture."""
    return fixture / part_file(name, directory=info.directory)


def part_forms(path: Path, info: PartInfo) -> tuple[Path, ...]:
    """Return the possible paths of a part: `path`, or compressed next to it."""
    return (path,) if info.directory else (path, _compressed(path))


def _compressed(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def new_path(path: Path) -> Path:
    """Return the path of the replacement for `path` until `meta.json` names it."""
    return path.with_name(path.name + _NEW)


def unfinished_folder(fixture: Path, name: str) -> Path:
    """Return the path of a directory part while it is being written."""
    return fixture / f"{safe_name(name)}.unfinished"


def sha256_directory(folder: Path) -> str:
    """Return the hash of the files' relative paths and bytes, in the order of the paths.

    Raises:
        FixtureError: it contains a link, which may lead anywhere.
    """
    lines = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_symlink():
            raise FixtureError("A directory part holds a link", where=str(path), fix="Write files and folders only")
        if path.is_file():
            lines.append(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n")
    return sha256_text("".join(lines))


def with_sizes(meta: FixtureMeta, sizes: Mapping[str, int]) -> FixtureMeta:
    """Return `meta` with the written bytes of each part."""
    sized = {name: structs.replace(meta.parts[name], stored_bytes=size) for name, size in sizes.items()}
    return structs.replace(meta, parts=meta.parts | sized)


def place_new(fixture: Path, name: str, content: bytes | Path, *, compress: bool = False) -> int:
    """Write a part next to the old one: its bytes, or a directory already written in the same fixture.

    Returns:
        The bytes of its file; 0 for a directory.
    """
    if isinstance(content, bytes):
        path = fixture / part_file(name)
        if compress:
            path, content = _compressed(path), compressed(content)
        write_atomic(new_path(path), content)
        return len(content)
    new = new_path(fixture / part_file(name, directory=True))
    if new.exists():
        shutil.rmtree(new)
    content.replace(new)
    return 0


def settle_new(path: Path, info: PartInfo) -> None:
    """Rename the new part to its final name; a process that dies in between leaves the temporary one.

    Args:
        path: its uncompressed path.
        info: its entry in `meta.json`.
    """
    if info.directory:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        new_path(path).replace(path)
        return
    for form, other in ((path, _compressed(path)), (_compressed(path), path)):
        if new_path(form).exists():
            new_path(form).replace(form)
            other.unlink(missing_ok=True)


def whole_part(fixture: Path, name: str, info: PartInfo) -> bytes | Path:
    """Return a part with a valid hash, from its new or final path: the bytes, or the directory.

    Raises:
        FixtureError: it is missing or damaged, or it is compressed and zstandard is not installed.
    """
    path = part_path(fixture, name, info)
    final_hash = ""
    # The new one first: a writer renames in that direction, so a reader that checks both cannot miss a part.
    for candidate in (place for form in part_forms(path, info) for place in (new_path(form), form)):
        content, digest = content_of(candidate, info)
        if content is not None and digest == info.sha256:
            return content
        final_hash = final_hash if candidate.name.endswith(_NEW) else digest or final_hash
    if not final_hash:
        raise FixtureError(f"Part '{name}' is missing", where=str(path), fix=REMAKE)
    raise FixtureError(
        f"Part '{name}' is damaged: its sha256 begins with {final_hash[:12]}, meta.json says {info.sha256[:12]}",
        where=str(path),
        fix=REMAKE,
    )


def content_of(path: Path, info: PartInfo) -> tuple[bytes | Path | None, str]:
    """Return the decompressed content at one of a part's paths, and its hash.

    None and no hash if nothing is there. Content that cannot be decompressed is hashed as it is.
    """
    if info.directory:
        return (path, sha256_directory(path)) if path.is_dir() else (None, "")
    data = read_file(path)
    if data is None:
        return None, ""
    stored_compressed = path.name.removesuffix(_NEW).endswith(SUFFIX)
    content = decompressed(data) if stored_compressed else data
    return content, sha256_bytes(data if content is None else content)


def read_file(path: Path) -> bytes | None:
    """Return a file's bytes; None if there is no such file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FixtureError(f"The file cannot be read: {error.strerror}", where=str(path)) from error


def remove(path: Path) -> None:
    """Remove a file or a directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
