"""A memory service in a child process: JSON lines on its standard input and output, its log on standard error."""

import asyncio
import os
import shlex
import signal
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from longmemeval.core import guard
from longmemeval.core.secrets.parameters import public_words
from longmemeval.core.secrets.redaction import redact
from longmemeval.memory.external.messages import Fault, Progress
from longmemeval.memory.external.transports.transport import LARGEST_MESSAGE, OnProgress, ServiceError, raise_fault

# Measure the peak memory of a child and all processes it started, as the system reports it for each.

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


_KEPT_LOG = 4000
"""Last bytes of standard error that are kept."""
_ENDING_S = 2.0
"""Seconds allowed for a child to end by itself, and for its last output to arrive."""


class _Line(Struct, frozen=True):
    """Any line of a child."""

    id: int | None = None
    result: Raw = Raw(b"null")
    error: Fault | None = None
    method: str = ""
    params: Raw = Raw(b"null")


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """The child's standard streams.

    They detect that the child has ended, even while a process that it started holds them open, and that it has closed
    its standard input, even while it goes on.
    """

    def __init__(self) -> None:
        super().__init__(LARGEST_MESSAGE, asyncio.get_running_loop())
        self.ended, self.deaf = asyncio.Event(), asyncio.Event()

    def process_exited(self) -> None:
        """Record that the child has ended."""
        super().process_exited()
        self.ended.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record that the child accepts no more requests."""
        super().pipe_connection_lost(fd, exc)
        if fd == 0:
            self.deaf.set()


class ChildProcess:
    """One child. It is started at the first call and killed together with all processes it started.

    Args:
        command: the words of its command; no shell is involved.
        on_progress: called with its notifications.
        environment: its environment variables; None: ours.
    """

    def __init__(
        self, command: Sequence[str], on_progress: OnProgress, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._environment = command, environment
        self._on_progress = on_progress
        self._process: asyncio.subprocess.Process | None = None
        self._streams: _Streams | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Raw]] = {}
        self._number = 0
        self._unasked = 0
        self._log = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._end: ServiceError | None = None
        self._family = uuid.uuid4().hex

    @property
    def gone(self) -> bool:
        """True if it has ended, or was killed because it broke the protocol."""
        return self._end is not None

    async def call(self, method: str, params: bytes) -> bytes:
        """Return the result of a call; see `Transport`."""
        async with self._starting:
            if self._process is None and self._end is None:
                await self._start()
        if self._end or self._process is None or self._process.stdin is None:
            raise self._end or ServiceError("The memory process is not running", code="gone")
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "method": method, "params": Raw(params)}
        try:
            with suppress(ConnectionError):  # It is gone; the task that reads from it finds out why.
                self._process.stdin.write(msgspec.json.encode(request) + b"\n")
                await self._process.stdin.drain()
            return bytes(await answer)
        finally:
            self._waiting.pop(number, None)

    def peak_resident_bytes(self) -> int | None:
        """Return the peak memory of the child and the processes it started; see `Transport`."""
        return peak_resident_bytes(self._process.pid, self._family) if self._process and not self._end else None

    async def end(self) -> None:
        """Kill the child."""
        await self._fail("was ended", "gone")

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, self._streams = await loop.subprocess_exec(
                _Streams,
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=guard.marked(os.environ if self._environment is None else self._environment)
                | {FAMILY: self._family},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            what = f"The memory process cannot be started: {error}"
            self._end = ServiceError(what, where=self._where, fix="Try the command by itself", code="gone")
            raise self._end from error
        self._process = asyncio.subprocess.Process(transport, self._streams, loop)
        guard.watch(self._process.pid, self._where)
        self._tasks = [asyncio.create_task(self._read_log(self._process)), asyncio.create_task(self._follow())]

    @property
    def _where(self) -> str:
        return redact(f"process:{shlex.join(public_words(self._command))}")

    async def _follow(self) -> None:
        """Read its answers until it ends or breaks the protocol, then record the reason."""
        if self._process is None or self._streams is None:
            return
        reading = asyncio.create_task(self._read_answers(self._process))
        ending, deafness = (asyncio.create_task(event.wait()) for event in (self._streams.ended, self._streams.deaf))
        await asyncio.wait({reading, ending, deafness}, return_when=asyncio.FIRST_COMPLETED)
        problem = reading.result() if reading.done() else ""
        if not problem:
            # The output ends together with the process, unless another process holds it open.
            await asyncio.wait({reading, ending}, timeout=_ENDING_S)
            problem = reading.result() if reading.done() else ""
        reading.cancel()
        ending.cancel()
        deafness.cancel()
        if problem:
            await self._fail(problem, "garbage")
            return
        code = self._process.returncode
        closed = "input" if self._streams.deaf.is_set() else "output"
        how = f"closed its {closed}" if code is None else f"ended by itself with exit code {code}"
        await self._fail(f"was killed by signal {-code}" if code and code < 0 else how, "gone")

    async def _read_answers(self, process: asyncio.subprocess.Process) -> str:
        """Read all answers; return what is wrong with the last one, if anything."""
        try:
            while process.stdout and (line := await process.stdout.readline()):
                if problem := self._take(line):
                    return problem
        except ValueError:
            return f"wrote a line of more than {LARGEST_MESSAGE // 2**20} MB"
        return ""

    def _take(self, data: bytes) -> str:
        """Process one line; return what is wrong with it, if anything."""
        self._unasked += len(data)
        if self._unasked > LARGEST_MESSAGE:
            return f"flooded its output: more than {LARGEST_MESSAGE // 2**20} MB without an answer"
        try:
            line = msgspec.json.decode(data, type=_Line)
            if line.id is None and line.method == "progress":
                self._on_progress(msgspec.json.decode(line.params, type=Progress))
                return ""
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"wrote a line that is not a message of the protocol: {data[:80].decode(errors='replace').strip()!r}"
        if line.id is None or not 0 < line.id <= self._number:
            return f"answered a request that was never sent: {data[:80].decode(errors='replace').strip()!r}"
        self._unasked = 0
        answer = self._waiting.pop(line.id, None)  # None if the call was cancelled.
        if answer and not answer.done():
            try:
                if line.error:
                    raise_fault(line.error)
                answer.set_result(line.result)
            except ServiceError as error:
                answer.set_exception(error)
        return ""

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        while process.stderr and (data := await process.stderr.read(65536)):
            self._log += data
            del self._log[:-_KEPT_LOG]

    async def _fail(self, how: str, code: str) -> None:
        """Kill the child with all processes it started; pending calls fail with the reason and its last log lines."""
        if self._end:
            return
        self._end = ServiceError(f"The memory process {how}", where=self._where, code=code)
        if self._process and self._streams:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._streams.ended.wait(), _ENDING_S)
                guard.release(self._process.pid)
            with suppress(TimeoutError):  # A process it started elsewhere may hold its standard error open.
                await asyncio.wait_for(asyncio.shield(self._tasks[0]), _ENDING_S)
            self._tasks[0].cancel()
        last = redact(self._log.decode(errors="replace")).strip()
        what = f"{self._end.what}. It last logged:\n{last}\n" if last else self._end.what
        self._end = ServiceError(what, where=self._where, code=code)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._end)
