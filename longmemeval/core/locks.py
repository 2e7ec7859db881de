"""A lock between processes: one of them writes, the others wait or are refused."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_POLL_S = 0.005
"""Seconds between two attempts of a waiting process; a lock is held while a few lines of a file are written."""


class LockedError(Exception):
    """Another process holds the lock."""


class LockProvider:
    """Provider of locks for this process: the operating system, or another provider where file locks do not reach."""

    held_by: Callable[[Path, bool], AbstractContextManager[None]] | None = None


LOCK_PROVIDER = LockProvider()


def lock_file(path: Path) -> Path:
    """Return the file whose lock guards `path`; it exists while the lock is held, and after its process died."""
    return Path(f"{path}.lock")


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of the file `path`. Never blocks and leaves no lock file."""
    lock = lock_file(path)
    if sys.platform == "win32":
        try:
            lock.unlink()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False
    import fcntl

    try:
        with lock.open("rb") as handle:
            # A free lock is held here for a moment; another process is refused only if it tries at this instant.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of the file `path`.

    It is the operating system's lock on a file next to it, `<path>.lock`, and vanishes with a process that is killed.
    The file itself is not locked, since Windows would let no other process read it.

    Args:
        path: file to write; its folder exists.
        wait: True to wait until another process releases it.

    Raises:
        LockedError: another process holds it, and `wait` is false.
    """
    if LOCK_PROVIDER.held_by:
        with LOCK_PROVIDER.held_by(path, wait):
            yield
        return
    # Imported here: loading it takes longer than reading most files.
    from filelock import FileLock, Timeout

    # The mere existence of a file never is a lock: it would outlive a killed process.
    lock = FileLock(lock_file(path), thread_local=False, fallback_to_soft=False, poll_interval=_POLL_S)
    try:
        lock.acquire(blocking=wait)
    except Timeout as error:
        raise LockedError from error
    try:
        yield
    finally:
        # Removed before the release: a process that waits for a missing file recreates it. Windows removes it itself.
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()
