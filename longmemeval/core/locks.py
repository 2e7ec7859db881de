"""A lock between processes: one of them writes, the others wait or are refused."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_POLL_S = 0.005
"""Between two looks of who waits; the lock is held for a few lines of a file."""


class LockedError(Exception):
    """Another process holds the lock."""


class LockProvider:
    """Who holds locks for this process: the operating system, or where files' locks do not reach somebody else."""

    held_by: Callable[[Path, bool], AbstractContextManager[None]] | None = None


LOCK_PROVIDER = LockProvider()


def lock_file(path: Path) -> Path:
    """The file whose lock is that of the file `path`; it is there while the lock is held, and after a process died."""
    return Path(f"{path}.lock")


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of the file `path`. Who asks leaves no trace, and does not wait."""
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
            # Where it is free it is held for a moment here; nobody else is refused unless he asks just then.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of the file `path`.

    The operating system's lock on a file beside it, `<path>.lock`: it vanishes with a process that is killed. Not on
    the file itself, since Windows would let no other process read it.

    Args:
        path: the file that is written; its folder is there.
        wait: until another process lets go.

    Raises:
        LockedError: another process holds it, and `wait` is false.
    """
    if LOCK_PROVIDER.held_by:
        with LOCK_PROVIDER.held_by(path, wait):
            yield
        return
    # Takes longer to load than most files take to be read.
    from filelock import FileLock, Timeout

    # Never the kind of lock that is a file's existence: it would outlive a process that is killed.
    lock = FileLock(lock_file(path), thread_local=False, fallback_to_soft=False, poll_interval=_POLL_S)
    try:
        lock.acquire(blocking=wait)
    except Timeout as error:
        raise LockedError from error
    try:
        yield
    finally:
        # Before it is released: who waits for a file that is gone makes it again. Windows removes it by itself.
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()
