"""What the tests of memory services share: one memory over every transport, with all that crosses it written down."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path

import jsonschema
import msgspec

from longmemeval.memory.external.messages import protocol_schema
from longmemeval.memory.external.serve import server_of
from longmemeval.memory.external.transports.child_process import ChildProcess
from longmemeval.memory.external.transports.service import HttpService, MemoryService, Timeouts
from longmemeval.memory.external.transports.transport import InProcess, OnProgress, Transport
from longmemeval.records import Haystack, Message, Session, Turn
from longmemeval.storage.messages import haystack_messages
from tests.support import ROOT, clean_environment

CARRIERS = ("in process", "child process", "http", "node")
EXAMPLE = resources.files("longmemeval.memory.external").joinpath("example.py.txt").read_text()
SERVE = f"{sys.executable} -m longmemeval.memory.external.serve"
NODE = ROOT / "examples" / "memory-in-node" / "memory.mjs"
SCHEMA = protocol_schema()
TEE = """
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def copy(source, to, name):
    with open(name + ".log", "ab") as log:
        for line in source:
            log.write(line); log.flush(); to.write(line); to.flush()
answers = threading.Thread(target=copy, args=(child.stdout, sys.stdout.buffer, "response"))
answers.start()
threading.Thread(target=copy, args=(sys.stdin.buffer, child.stdin, "request"), daemon=True).start()
answers.join()
child.wait()
"""
"""A program between us and a child process that writes every line down."""


def valid(document: object, name: str) -> None:
    """Refuse what the published schema does not know under `name`."""
    _validator(name).validate(document)


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


class Tap:
    """A transport that writes down every message, and validates it by the published schema."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.sent: list[tuple[str, bytes]] = []
        self.received: list[tuple[str, bytes]] = []

    @property
    def gone(self) -> bool:
        return self.transport.gone

    async def call(self, method: str, params: bytes) -> bytes:
        self.sent.append((method, params))
        valid(msgspec.json.decode(params), f"{method}.params")
        result = await self.transport.call(method, params)
        self.received.append((method, result))
        valid(msgspec.json.decode(result), f"{method}.result")
        return result

    def peak_resident_bytes(self) -> int | None:
        return self.transport.peak_resident_bytes()

    async def end(self) -> None:
        await self.transport.end()


@contextmanager
def http_served(target: str, folder: Path) -> Iterator[str]:
    """The address of a class served over HTTP by the reference implementation."""
    command = [sys.executable, "-m", "longmemeval.memory.external.serve_http", target]
    environment = clean_environment()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().removeprefix("listening on ").strip()
        finally:
            server.terminate()


@contextmanager
def memory_service(
    transport: str,
    folder: Path,
    target: str = "mymem:MyMemory",
    timeouts: Timeouts | None = None,
    lines: list[tuple[str, bytes]] | None = None,
) -> Iterator[tuple[MemoryService, list[Tap]]]:
    """A service over one of `CARRIERS`, and its taps; modules are found in `folder`, the current one.

    `lines` takes what a child process was sent and answered, as `request` and `response` of the schema.
    """
    taps: list[Tap] = []

    @contextmanager
    def connected() -> Iterator[Callable[[OnProgress], Transport]]:
        if transport == "http":
            with http_served(target, folder) as address:
                yield lambda on_progress: HttpService(address)
        elif transport == "in process":
            yield lambda on_progress: InProcess(server_of(target))
        else:
            command = f"node {NODE}" if transport == "node" else f"{SERVE} {target}"
            if lines is not None:
                (folder / "tee.py").write_text(TEE)
                command = f"{sys.executable} tee.py {command}"
            yield lambda on_progress: ChildProcess(command.split(), on_progress)

    with connected() as connect:

        def tapped(on_progress: OnProgress) -> Transport:
            taps.append(Tap(connect(on_progress)))
            return taps[-1]

        service = MemoryService(tapped, timeouts)
        try:
            yield service, taps
        finally:
            asyncio.run(service.close())
            logs = [log for log in map(folder.joinpath, ("request.log", "response.log")) if log.exists()]
            if lines is not None:
                lines.extend((log.stem, line) for log in logs for line in log.read_bytes().splitlines())


def session(name: str, day: int, *texts: str) -> Session:
    """A session in May 2023, the user's turn first."""
    turns = tuple(Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(texts))
    return Session(name, datetime(2023, 5, day, 9, 30), f"2023/05/{day:02} 09:30", turns)


def haystack(name: str, *sessions: Session) -> tuple[Haystack, list[Message]]:
    """A haystack and its stored messages."""
    made = Haystack(name, sessions)
    return made, haystack_messages(made)
