"""Measure the memory that a child takes, with all processes it started: what the system says of each at its peak."""

from contextlib import suppress
from pathlib import Path

from longmemeval.memory.external.transports import guard

FAMILY = "LONGMEMEVAL_CHILD"
"""The environment variable by which processes of one child are recognised, wherever they are now."""


def peak_resident_bytes(pid: int, family: str) -> int | None:
    """Return the peak resident memory of a child and of the processes it started that are alive, added up.

    Pages that processes share count for each of them, and their peaks need not have been at one time: no more than this
    was taken at once.

    Args:
        pid: the child, the leader of a session.
        family: its value of `FAMILY`.

    Returns:
        Bytes; None if the child is gone, or the system does not tell as Linux does.
    """
    processes = {process.pid: process for process in guard.processes()}
    if pid not in processes:
        return None
    found = {one.pid for one in processes.values() if pid in (one.session, one.group) or one.has(FAMILY, family)}
    while more := {one.pid for one in processes.values() if one.parent in found} - found:
        found |= more
    peaks = {one: _peak(one) for one in found}
    return None if peaks.get(pid) is None else sum(peak or 0 for peak in peaks.values())


def _peak(pid: int) -> int | None:
    """Return `VmHWM`, the most that was ever resident (proc_pid_status(5)), in bytes; None if it is gone."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
