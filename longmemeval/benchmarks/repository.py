"""Files of a data set that are published one by one in a git repository: fetched from one commit, by git.

The commit's id is a hash over the ids of all its files, so that git checks every byte it is sent against the one id in
the catalogue. Nothing is fetched but the files that are wanted (`--filter=blob:none`), a file at a time: what is
there with the right bytes is not asked for again.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import tenacity
from msgspec import Struct

from longmemeval.errors import DataError

_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_PIECE = 1 << 20
_FINAL = ("not found", "not our ref", "no such remote ref")
"""What git says where asking again does not help."""
_NOT_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")


class Repository(Struct, frozen=True, forbid_unknown_fields=True):
    """Where files are published, and which of them."""

    url: str
    commit: str
    """All 40 digits."""
    folder: str
    """Of the clone, in the data folder."""
    files: tuple[str, ...]
    """Patterns of their paths in the repository; `*` stands for one name."""


class _Refused(Exception):
    """Asking git again does not help."""


class _Interrupted(Exception):
    """Asking git again may help."""


def is_complete(repository: Repository, clone: Path) -> bool:
    """Whether the clone has all files; their bytes are left to `changed_files`."""
    try:
        return all((clone / path).is_file() for path in _wanted(repository, clone))
    except (_Refused, _Interrupted, OSError):
        return False


def changed_files(repository: Repository, clone: Path) -> list[Path] | None:
    """The files that are missing or have other bytes than at the commit; None where the clone does not know them."""
    try:
        wanted = _wanted(repository, clone)
    except (_Refused, _Interrupted, OSError):
        return None
    return [clone / path for path, identifier in wanted.items() if _blob_id(clone / path) != identifier]


def fetch(
    name: str,
    repository: Repository,
    clone: Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    pause: float = 0.5,
) -> None:
    """Bring all files into the clone, which is made where there is none.

    Args:
        name: of the data set, for errors.
        repository: what to fetch.
        clone: its folder.
        on_progress: called with the files that are there and all that are wanted.
        pause: seconds before the second attempt of a request; doubles with each further one.

    Raises:
        DataError: there is no git, no network, no such commit at the server, or no room; what came is kept.
    """
    remedy = (
        f"Try again, which goes on from here, or put the files {', '.join(repository.files)} of commit "
        f"{repository.commit} into {clone} by other means"
    )
    if not shutil.which("git"):
        raise DataError(f"{name!r} is fetched by git, which is not installed", where=repository.url, fix=remedy)
    try:
        clone.mkdir(parents=True, exist_ok=True)
        _begin(repository, clone, pause)
        wanted = _wanted(repository, clone)
        missing = [path for path, identifier in wanted.items() if _blob_id(clone / path) != identifier]
        for number, path in enumerate(missing):
            if on_progress:
                on_progress(len(wanted) - len(missing) + number, len(wanted))
            _patiently(pause, clone, "restore", f"--source={repository.commit}", "--worktree", "--", path)
            if _blob_id(clone / path) != wanted[path]:
                raise _Refused(f"{path} does not have the bytes that the commit says")
        if on_progress:
            on_progress(len(wanted), len(wanted))
    except (_Refused, _Interrupted) as error:
        raise DataError(f"{name!r} cannot be downloaded: {error}", where=repository.url, fix=remedy) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name!r} cannot be written: {reason}", where=str(clone), fix=remedy) from error


def _begin(repository: Repository, clone: Path, pause: float) -> None:
    """Have the commit and the names of its files in the clone."""
    if not (clone / ".git").exists():
        _git(clone, "init", "--quiet")
        _git(clone, "remote", "add", "origin", repository.url)
    # What git sets itself for a clone with a filter: files that are not here are asked for when they are wanted.
    _git(clone, "config", "remote.origin.promisor", "true")
    _git(clone, "config", "remote.origin.partialclonefilter", "blob:none")
    try:
        _git(clone, "cat-file", "-e", f"{repository.commit}^{{tree}}")
    except (_Refused, _Interrupted):
        _patiently(pause, clone, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", repository.commit)


def _wanted(repository: Repository, clone: Path) -> dict[str, str]:
    """Paths of all files that are wanted -> git's ids of their bytes."""
    if not (clone / ".git").exists():
        raise _Refused("there is no clone")
    lines = _git(clone, "ls-tree", "-r", "-z", repository.commit).split("\0")
    identifiers = {path: entry.split()[2] for entry, _, path in (line.partition("\t") for line in lines if line)}
    found = {path: one for path, one in identifiers.items() if any(_matches(path, each) for each in repository.files)}
    for pattern in repository.files:
        if not any(_matches(path, pattern) for path in found):
            raise _Refused(f"commit {repository.commit} has no file {pattern}")
    return found


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and PurePosixPath(path).match(pattern)


def _blob_id(path: Path) -> str | None:
    """Git's id of a file's bytes; None where there is no file."""
    if not path.is_file():
        return None
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while piece := handle.read(_PIECE):
            yield piece


def _patiently(pause: float, clone: Path, *arguments: str) -> None:
    """Have git do what needs the network, again where that may help."""
    tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Interrupted),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=pause, max=_LONGEST_PAUSE),
        reraise=True,
    )(_git, clone, *arguments)


def _git(clone: Path, *arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(
        [
            *("git", f"--git-dir={clone.resolve() / '.git'}", f"--work-tree={clone.resolve()}", "--literal-pathspecs"),
            *("-c", "core.autocrlf=false", "-c", "gc.auto=0"),
            # A connection that stands still for a minute is given up.
            *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
            *arguments,
        ],
        cwd=clone,
        env={name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"git ended with {done.returncode}"]
        said = next((line.partition(": ")[2] for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise (_Refused if any(one in done.stderr.lower() for one in _FINAL) else _Interrupted)(said)
    return done.stdout
