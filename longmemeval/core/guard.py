"""End the programs that memories and models run after the command that started them has ended, however it ended.

A command that is killed cannot end its children, and a child that is stuck in a call does not notice that its standard
input has closed. So each process with children starts this file as one more child, with a pipe between them. Through
the pipe it learns of the other children; when the pipe closes, it ends those that are left, with all processes of their
sessions. It needs only the standard library.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

BY_ITSELF_S = 2.0
"""Seconds allowed for a child to end after its standard input has closed."""
KILLED_S = 2.0
"""Seconds after which a killed process is reported as impossible to end."""
_LOOK_AGAIN_S = 0.02
_PROCESSES = Path("/proc")

_MARK = "LONGMEMEVAL_GUARD"
"""The environment variable by which the guard recognises processes that its children started, even moved ones."""

_lock = Lock()
_unique = uuid.uuid4().hex
_guard: "subprocess.Popen[bytes] | None" = None


def _own_mark() -> str:
    """Return the mark of this process; a process forked from the same parent has a different one."""
    return f"{_unique}-{os.getpid()}"


def marked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child, marked for the guard."""
    return {**environment, _MARK: _own_mark()}


def watch(pid: int, name: str) -> None:
    """Have the child `pid`, the leader of a session, ended when this process ends.

    Args:
        pid: its process id.
        name: its name in a warning if it cannot be ended; must not contain a secret.
    """
    _send(f"+{pid} {' '.join(name.split())}")


def release(pid: int) -> None:
    """Stop watching the child `pid`, which has ended."""
    _send(f"-{pid}")


def _send(line: str) -> None:
    global _guard
    with _lock, suppress(OSError):  # Everything else works without a guard.
        if _guard is None:
            command = [sys.executable, "-I", "-S", str(Path(__file__)), _own_mark()]
            _guard = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, bufsize=0
            )
        if _guard.stdin:
            _guard.stdin.write(line.encode(errors="replace") + b"\n")


class Process:
    """A line of the operating system's list of processes."""

    def __init__(self, pid: int, stat: str) -> None:
        # The name, in parentheses, may contain any character.
        self.name = stat.partition("(")[2].rpartition(")")[0]
        state, parent, group, session = stat.rpartition(")")[2].split()[:4]
        self.pid, self.parent, self.group, self.session = pid, int(parent), int(group), int(session)
        self.is_alive = state not in "ZX"

    def has(self, variable: str, value: str) -> bool:
        """Return whether it was started with this variable in its environment; False if that cannot be read."""
        with suppress(OSError):
            return f"{variable}={value}".encode() in (_PROCESSES / str(self.pid) / "environ").read_bytes().split(b"\0")
        return False


def processes() -> Iterator[Process]:
    """Yield all processes that are alive; none if the system does not list them as Linux does."""
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            process = Process(int(folder.name), (folder / "stat").read_text(errors="replace"))
            if process.is_alive:
                yield process


def _left(leaders: set[int]) -> set[int]:
    """Return the process groups that are left in the sessions of `leaders`."""
    if _PROCESSES.joinpath("self").exists():
        return {process.group for process in processes() if leaders & {process.session, process.group}}
    return {leader for leader in leaders if _is_there(leader)}


def _is_there(group: int) -> bool:
    with suppress(ProcessLookupError):
        with suppress(PermissionError):
            os.killpg(group, 0)
        return True
    return False


def _strays(leaders: set[int], mark: str) -> list[str]:
    """Return the processes started by those of `leaders` that have left their sessions: process id and name."""
    return [
        f"{process.pid} ({process.name})"
        for process in processes()
        if not leaders & {process.session, process.group} and process.has(_MARK, mark)
    ]


def _end(children: dict[int, str], mark: str) -> list[str]:
    """End `children` with all processes they started.

    Returns:
        The processes that are left: process id and name.
    """
    leaders = set(children)
    deadline = time.monotonic() + BY_ITSELF_S
    while (groups := _left(leaders)) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)
    deadline = time.monotonic() + KILLED_S
    # A process that left its session may have its reasons, and its own way to end.
    while (groups or _strays(leaders, mark)) and time.monotonic() < deadline:
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_S)
        groups = _left(leaders)
    left = [f"{group} ({children[group]})" if group in children else str(group) for group in sorted(groups)]
    return left + _strays(leaders, mark)


def main() -> None:
    """Wait until the command has ended, then end the children that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children: dict[int, str] = {}
    for line in sys.stdin.buffer:
        what, (pid, _, name) = line[:1], line[1:].decode(errors="replace").strip().partition(" ")
        if what == b"+":
            children[int(pid)] = name
        else:
            children.pop(int(pid), None)
    if left := _end(children, sys.argv[1]):
        listed = ", ".join(left)
        with suppress(OSError):
            sys.stderr.write(
                f"These processes of a memory or model are still running: {listed}. End them with kill -9.\n"
            )
            sys.stderr.flush()


if __name__ == "__main__":
    main()
