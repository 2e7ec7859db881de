"""The files and directories of a fixture's parts: their names, hashes, and how new ones take the place of old ones."""

import shutil
from pathlib import Path

from longmemeval.errors import FixtureError
from longmemeval.files import safe_name, sha256_bytes, sha256_file, sha256_text, write_atomic
from longmemeval.records import PartInfo
from longmemeval.storage.format import REMAKE


def part_file(name: str, *, directory: bool = False) -> str:
    """The file name of a part: `db` is in `db.json`, a directory has its name alone."""
    return safe_name(name) if directory else f"{safe_name(name)}.json"


def part_path(fixture: Path, name: str, info: PartInfo) -> Path:
    """Where a part of a fixture is."""
    return fixture / part_file(name, directory=info.directory)


def new_path(path: Path) -> Path:
    """Where what replaces `path` is until `meta.json` names it."""
    return path.with_name(f"{path.name}.new")


def unfinished_folder(fixture: Path, name: str) -> Path:
    """Where a directory part is being written."""
    return fixture / f"{safe_name(name)}.unfinished"


def sha256_directory(folder: Path) -> str:
    """Hash of the files' relative paths and bytes, in the order of the paths.

    Raises:
        FixtureError: it holds a link, which may lead anywhere.
    """
    lines = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_symlink():
            raise FixtureError("A directory part holds a link", where=str(path), fix="Write files and folders only")
        if path.is_file():
            lines.append(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n")
    return sha256_text("".join(lines))


def place_new(fixture: Path, name: str, content: bytes | Path) -> None:
    """Write a part beside the old one: its bytes, or the directory that was written elsewhere in the same fixture."""
    if isinstance(content, bytes):
        write_atomic(new_path(fixture / part_file(name)), content)
        return
    new = new_path(fixture / part_file(name, directory=True))
    if new.exists():
        shutil.rmtree(new)
    content.replace(new)


def settle_new(path: Path) -> None:
    """Give the new part at `path` its name; a process that dies in between leaves it under the other one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    new_path(path).replace(path)


def whole_part(fixture: Path, name: str, info: PartInfo) -> bytes | Path:
    """A part whose hash holds, from its new place or its own: the bytes, or the directory.

    Raises:
        FixtureError: it is missing or damaged.
    """
    path = part_path(fixture, name, info)
    found = ""
    # The new one first: a writer renames in that direction, so a part cannot slip past a reader that looks at both.
    for candidate in (new_path(path), path):
        content = _content(candidate, info)
        if content is not None:
            found = sha256_bytes(content) if isinstance(content, bytes) else sha256_directory(content)
            if found == info.sha256:
                return content
    if not found or _content(path, info) is None:
        raise FixtureError(f"Part '{name}' is missing", where=str(path), fix=REMAKE)
    raise FixtureError(
        f"Part '{name}' is damaged: its sha256 begins {found[:12]}, meta.json says {info.sha256[:12]}",
        where=str(path),
        fix=REMAKE,
    )


def read_file(path: Path) -> bytes | None:
    """A file's bytes; None if there is no such file."""
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


def _content(path: Path, info: PartInfo) -> bytes | Path | None:
    if info.directory:
        return path if path.is_dir() else None
    return read_file(path)
