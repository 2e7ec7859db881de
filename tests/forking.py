"""Commands in processes of their own that need not import the libraries again: forked from one that has.

A forked command has its own process id, session, folder, environment, standard streams and signals, and ends as any
process does, by `runpy` as `python -m longmemeval`. Only what importing takes is taken once, for all commands of a test
session: most of the time of a short command.
"""

import faulthandler
import gc
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import NoReturn

LIBRARIES = ("litellm", "openai", "hnswlib", "joblib.externals.loky", "jinja2", "nltk", "scipy.stats", "tiktoken")
"""What commands import besides our own modules."""

DATABASES = frozenset({"falkordb", "ladybug", "lancedb", "postgres", "qdrant"})
"""Modules that bring one."""

Request = tuple[list[str], str, dict[str, str], str, str]
"""Arguments, folder, environment, files for standard output and standard error."""


class Forked:
    """A command under way, as `subprocess.Popen` shows one."""

    def __init__(self, server: "Server", request: Request) -> None:
        self._server = server
        self._streams = request[3:]
        self.pid = server.start(request)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ended(self.pid)
        return self.returncode

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """Wait for its end; what it printed on standard output and standard error."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.killpg(self.pid, signal.SIGKILL)
                raise TimeoutError(f"still running after {timeout} s")
            time.sleep(0.002)
        out, err = (Path(stream).read_text(encoding="utf-8") for stream in self._streams)
        return out, err

    def send_signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it alone, or to it and all its workers; nothing where it has ended."""
        if self.poll() is None:
            # It may end at this moment.
            with suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)


class Server:
    """The process that commands are forked from; it ends with this one."""

    def __init__(self) -> None:
        ours, theirs = Pipe()
        root = str(Path(__file__).resolve().parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=root,
            env=os.environ | {"PYTHONPATH": root, "NO_COLOR": "1"},
            start_new_session=True,
        )
        theirs.close()
        self._connection = ours
        self._folder = tempfile.TemporaryDirectory(prefix="longmemeval-commands-")
        self._numbers = count()
        self._ended: dict[int, int] = {}

    def streams(self) -> tuple[str, str]:
        """Files for standard output and standard error of the next command."""
        number = next(self._numbers)
        return f"{self._folder.name}/{number}.out", f"{self._folder.name}/{number}.err"

    def start(self, request: Request) -> int:
        """Fork a command; its process id."""
        self._connection.send(request)
        while True:
            kind, pid, code = self._connection.recv()
            if kind == "begun":
                return int(pid)
            self._ended[pid] = code

    def ended(self, pid: int) -> int | None:
        """The exit code of a command; None while it runs."""
        while self._connection.poll():
            _, other, code = self._connection.recv()
            self._ended[other] = code
        return self._ended.pop(pid, None)


@cache
def server() -> Server:
    """The one of this test session."""
    return Server()


def start_forked(arguments: list[str], cwd: Path, environment: dict[str, str]) -> Forked:
    """Begin `longmemeval` with `arguments` in the folder `cwd`, with exactly this environment."""
    return Forked(server(), (arguments, str(cwd), environment, *server().streams()))


def _serve(connection: Connection) -> None:
    """Fork a command for every request, until whoever asks is gone."""
    under_way: set[int] = set()
    while True:
        try:
            request = connection.recv() if connection.poll(0.002 if under_way else None) else None
        except EOFError:
            return
        if request is not None:
            pid = os.fork()
            if pid == 0:
                connection.close()
                _become(request)
            under_way.add(pid)
            connection.send(("begun", pid, 0))
        for pid in list(under_way):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                under_way.remove(pid)
                connection.send(("ended", pid, os.waitstatus_to_exitcode(status)))


def _become(request: Request) -> NoReturn:
    """Be the command that was asked for."""
    arguments, folder, environment, *streams = request
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # A session under nohup has it ignored.
    for number, stream in enumerate(("/dev/null", *streams)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(stream, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    faulthandler.enable(2)  # A crash says where.
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # As `python -m` has them.
    sys.path[0] = folder
    sys.argv = ["longmemeval", *arguments]
    runpy.run_module("longmemeval", run_name="__main__", alter_sys=True)
    sys.exit()


def _load() -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    for library in LIBRARIES:
        import_module(library)
    package = Path(__file__).resolve().parents[1] / "longmemeval"
    for path in sorted(package.rglob("*.py")):
        # Databases are seldom asked for, take seconds to import and begin threads, which a fork does not survive.
        if path.name != "__main__.py" and path.stem not in DATABASES:
            import_module(".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"))
    # How long a command takes depends on the machine, and what it prints must not.
    sys.modules["longmemeval.cli.never_silent"].__dict__["SILENT_AT_MOST_S"] = 3600.0
    # A collection in a forked process would copy all that is shared.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _load()
    _serve(Connection(int(sys.argv[1])))
