"""Files of a dataset that are published individually in a git repository, fetched by git from one commit.

The commit's id is a hash over the ids of all its files, so that git verifies every byte it receives against the id in
the catalogue. Only the wanted files are fetched (`--filter=blob:none`), one at a time; files that are already there
with the right bytes are not requested again.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from longmemeval.errors import DataError

_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_PIECE = 1 << 20
_FINAL = ("not found", "not our ref", "no such remote ref")
"""Git's messages for failures that trying again does not help."""
_NOT_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")


class Repository(Struct, frozen=True, forbid_unknown_fields=True):
    """A repository of published files, and the wanted ones."""

    url: str
    commit: str
    """Full commit id of 40 digits."""
    folder: str
    """Folder of the clone, in the data folder."""
    files: tuple[str, ...]
    """Patterns of the files' paths in the repository; `*` stands for one name."""


class _Refused(Exception):
    """Failure for which calling git again does not help."""


class _Interrupted(Exception):
    """Failure for which calling git again may help."""


def is_complete(repository: Repository, clone: Path) -> bool:
    """Return whether the clone has all files; their bytes are checked by `changed_files`."""
    try:
        return all((clone / path).is_file() for path in _wanted(repository, clone))
    except (_Refused, _Interrupted, OSError):
        return False


def changed_files(repository: Repository, clone: Path) -> list[Path] | None:
    """Return the files that are missing or differ from the commit; None if the clone does not have the commit."""
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
    """Fetch all missing files into the clone, which is created if needed.

    Args:
        name: name of the dataset, for errors.
        clone: folder of the clone.
        on_progress: called with the numbers of files present and wanted.
        pause: seconds before the second attempt of a request; doubles with each further one.

    Raises:
        DataError: there is no git, network, such commit at the server, or disk space; files already fetched stay.
    """
    remedy = (
        f"Try again, which continues from here, or put the files {', '.join(repository.files)} of commit "
        f"{repository.commit} into {clone} by other means"
    )
    if not shutil.which("git"):
        raise DataError(f"{name!r} is fetched with git, which is not installed", where=repository.url, fix=remedy)
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
                raise _Refused(f"{path} does not have the bytes of the commit")
        if on_progress:
            on_progress(len(wanted), len(wanted))
    except (_Refused, _Interrupted) as error:
        raise DataError(f"{name!r} cannot be downloaded: {error}", where=repository.url, fix=remedy) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name!r} cannot be written: {reason}", where=str(clone), fix=remedy) from error


def _begin(repository: Repository, clone: Path, pause: float) -> None:
    """Create the clone and fetch the commit with the names of its files, unless they are there."""
    if not (clone / ".git").exists():
        _git(clone, "init", "--quiet")
        _git(clone, "remote", "add", "origin", repository.url)
    # Settings of a clone with a filter: git requests missing files when they are needed.
    _git(clone, "config", "remote.origin.promisor", "true")
    _git(clone, "config", "remote.origin.partialclonefilter", "blob:none")
    try:
        _git(clone, "cat-file", "-e", f"{repository.commit}^{{tree}}")
    except (_Refused, _Interrupted):
        _patiently(pause, clone, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", repository.commit)


def _wanted(repository: Repository, clone: Path) -> dict[str, str]:
    """Return git's ids of the bytes of all wanted files, by path."""
    if not (clone / ".git").exists():
        raise _Refused("the clone is missing")
    lines = _git(clone, "ls-tree", "-r", "-z", repository.commit).split("\0")
    identifiers = {path: entry.split()[2] for entry, _, path in (line.partition("\t") for line in lines if line)}
    wanted = {
        path: identifier
        for path, identifier in identifiers.items()
        if any(_matches(path, pattern) for pattern in repository.files)
    }
    for pattern in repository.files:
        if not any(_matches(path, pattern) for path in wanted):
            raise _Refused(f"commit {repository.commit} has no file {pattern}")
    return wanted


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and PurePosixPath(path).match(pattern)


def _blob_id(path: Path) -> str | None:
    """Return git's id of a file's bytes; None if there is no file."""
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
    """Run a git command that needs the network, and repeat it if that may help."""
    import tenacity

    tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Interrupted),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=pause, max=_LONGEST_PAUSE),
        reraise=True,
    )(_git, clone, *arguments)


def _git(clone: Path, *arguments: str) -> str:
    """Run git and return its output."""
    done = subprocess.run(
        [
            *("git", f"--git-dir={clone.resolve() / '.git'}", f"--work-tree={clone.resolve()}", "--literal-pathspecs"),
            *("-c", "core.autocrlf=false", "-c", "gc.auto=0"),
            # Git closes a connection without traffic for a minute.
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
        message = next((line.partition(": ")[2] for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise (_Refused if any(phrase in done.stderr.lower() for phrase in _FINAL) else _Interrupted)(message)
    return done.stdout
