"""Measure the peak memory of a child and all processes it started, as the system reports it for each."""

from contextlib import suppress
from pathlib import Path

from longmemeval.memory.external.transports import guard

FAMILY = "LONGMEMEVAL_CHILD"
"""The environment variable by which processes of one child are recognised, even in another session."""


def peak_resident_bytes(pid: int, family: str) -> int | None:
    """Return the sum of the peak resident memory of a child and of the living processes it started.

    Shared pages count for every process, and the peaks need not coincide, so the sum is an upper bound of the memory
    used at any time.

    Args:
        pid: the child, the leader of a session.
        family: its value of `FAMILY`.

    Returns:
        Bytes; None if the child is gone, or the system does not report memory as Linux does.
    """
    processes = {process.pid: process for process in guard.processes()}
    if pid not in processes:
        return None
    found = {
        process.pid
        for process in processes.values()
        if pid in (process.session, process.group) or process.has(FAMILY, family)
    }
    while more := {process.pid for process in processes.values() if process.parent in found} - found:
        found |= more
    peaks = {member: _peak(member) for member in found}
    return None if peaks.get(pid) is None else sum(peak or 0 for peak in peaks.values())


def _peak(pid: int) -> int | None:
    """Return `VmHWM`, the peak resident set size (proc_pid_status(5)), in bytes; None if the process is gone."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
