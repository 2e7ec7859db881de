"""Commands in processes of their own that need not import the libraries again: forked from one that has.

A forked command has its own process id, session, folder, environment, standard streams and signals, and ends as any
process does, by `runpy` as `python -m longmemeval`. Only what importing takes is taken once, for all commands of a test
session: most of the time of a short command.
"""

import atexit
import faulthandler
import gc
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import NoReturn

from longmemeval.core.journal import locked

LIBRARIES = (
    "litellm",
    # What LiteLLM and OpenAI's client import when they first send a request: hundreds of modules.
    "litellm.integrations.prometheus_services",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "openai.resources.beta.assistants",
    "httpcore",
    "hnswlib",
    "loky",
    "jinja2",
    "nltk",
    "scipy.stats",
    "tiktoken",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "s3fs",
)
"""What commands import besides our own modules."""

DATABASES = frozenset({"falkordb", "ladybug", "lancedb", "postgres", "qdrant"})
"""Modules that bring one."""

SILENT_AT_MOST_S = "SILENT_AT_MOST_S"
"""In the environment of a command: after how many seconds it says that it works; it says nothing without."""

UNLOADED = "UNLOADED"
"""In the environment of the process that commands are forked from: each command imports for itself what it needs."""

Request = tuple[int, list[str], str, dict[str, str], bool, str, str]
"""Its number, arguments, folder, environment, whether it ends quickly, files for standard output and standard error."""


_PROCESSES: list["subprocess.Popen[bytes]"] = []
"""Those that commands are forked from, begun here; they may go on when this process has ended."""


class Forked:
    """A command under way, as `subprocess.Popen` shows one."""

    def __init__(self, server: "Server", request: Request) -> None:
        self._server = server
        self._number = request[0]
        self._streams = request[-2:]
        self.pid = server.start(request)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ended(self._number)
        return self.returncode

    def printed(self) -> str:
        """Return what it has printed so far, standard output first."""
        return "".join(path.read_text(encoding="utf-8") for path in map(Path, self._streams) if path.exists())

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """Wait for its end; what it printed on standard output and standard error."""
        if self.returncode is None:
            self.returncode = self._server.ended(self._number, within=timeout)
        if self.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            raise TimeoutError(f"still running after {timeout} s")
        out, err = (Path(stream).read_text(encoding="utf-8") for stream in self._streams)
        return out, err

    def send_signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it alone, or to it and all its workers; nothing where it has ended."""
        if self.poll() is None:
            # It may end at this moment.
            with suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)


class Server:
    """The process that commands are forked from; it ends with the last process that uses it.

    Args:
        python: its interpreter; None: the one of this process.
        shared: a folder with a short name: whoever names the same one uses the same process; None: it is for this one.
    """

    def __init__(self, python: Path | None = None, *, shared: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="longmemeval-commands-")
        self._numbers = count()
        # By the numbers of commands: in a long session the system gives a process id a second time.
        self._ended: dict[int, int] = {}
        if shared is None:
            self._connection = _begun(python, None)
            return
        shared.mkdir(exist_ok=True)
        with locked(shared / "lock", wait=True):
            self._connection = _joined(shared / "socket") or _begun(python, shared / "socket")

    def next_command(self) -> tuple[int, str, str]:
        """Return a number for the next command, and files for its standard output and standard error."""
        number = next(self._numbers)
        return number, f"{self._folder.name}/{number}.out", f"{self._folder.name}/{number}.err"

    def start(self, request: Request) -> int:
        """Fork a command; its process id."""
        self._connection.send(request)
        while True:
            kind, number, value = self._connection.recv()
            if kind == "begun":
                return int(value)
            self._ended[number] = value

    def ended(self, command: int, *, within: float = 0.0) -> int | None:
        """Return the exit code of the command with this number; None if it still runs after `within` seconds."""
        deadline = time.monotonic() + within
        while command not in self._ended and self._connection.poll(max(0.0, deadline - time.monotonic())):
            _, number, code = self._connection.recv()
            self._ended[number] = code
        return self._ended.pop(command, None)


def _joined(address: Path) -> Connection | None:
    """Return a connection to the process that listens there; None if there is none."""
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(str(address))
    except OSError:
        connected.close()
        return None
    return Connection(connected.detach())


def _begun(python: Path | None, address: Path | None) -> Connection:
    """Begin a process, which listens at an address if there is one, and return the connection to it."""
    ours, theirs = Pipe()
    root = str(Path(__file__).resolve().parents[1])
    handed = [theirs.fileno()]
    if address:
        # From now on others can connect; they wait until it has imported everything.
        address.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(address))
        listening.listen()
        handed.append(listening.detach())
    process = subprocess.Popen(
        [python or sys.executable, "-m", "tests.forking", *map(str, handed)],
        pass_fds=handed,
        cwd=root,
        env=os.environ | {"PYTHONPATH": root, "NO_COLOR": "1"},
        # A pipe that this process writes to would stay open as long as the new one lives.
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    _PROCESSES.append(process)
    theirs.close()
    for number in handed[1:]:
        os.close(number)
    return ours


@cache
def server() -> Server:
    """The one of this test session, for all its workers."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return Server(shared=Path(tempfile.gettempdir(), f"longmemeval-{session[:8]}") if session else None)


def start_forked(
    arguments: list[str], cwd: Path, environment: dict[str, str], *, of: Server | None = None, quickly: bool = False
) -> Forked:
    """Begin `longmemeval` with `arguments` in the folder `cwd`, with exactly this environment.

    Args:
        arguments: of the command; those of `python` if the first is a Python file.
        of: the process to fork; None: the one of this test session.
        quickly: whether it leaves what was imported as it is when it ends, which takes longer to take apart than a
            short command takes. How a command ends that is interrupted only an end in full can show.
    """
    source = of or server()
    number, out, err = source.next_command()
    return Forked(source, (number, arguments, str(cwd), environment, quickly, out, err))


def _serve(connection: Connection, listening: socket.socket | None) -> None:
    """Fork a command for every request, until all who may ask are gone."""
    asking = [connection]
    under_way: dict[int, tuple[Connection, int]] = {}
    # Ready when the process with this id has ended. Where the system has none, this process looks now and then.
    ends: dict[int, int] = {}
    while asking:
        look = 0.002 if len(ends) < len(under_way) else None
        for ready in wait([*asking, *([listening] if listening else []), *ends.values()], look):
            if isinstance(ready, int):
                continue
            if isinstance(ready, socket.socket):
                asking.append(Connection(ready.accept()[0].detach()))
                continue
            assert isinstance(ready, Connection)
            try:
                request = ready.recv()
            except (EOFError, OSError):
                asking.remove(ready)
                continue
            pid = os.fork()
            if pid == 0:
                for open_connection in asking:
                    open_connection.close()
                for end in ends.values():
                    os.close(end)
                if listening:
                    listening.close()
                _become(request)
            number = request[0]
            under_way[pid] = ready, number
            if hasattr(os, "pidfd_open"):
                ends[pid] = os.pidfd_open(pid)
            _tell(ready, "begun", number, pid)
        for pid in list(under_way):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                source, number = under_way.pop(pid)
                if pid in ends:
                    os.close(ends.pop(pid))
                _tell(source, "ended", number, os.waitstatus_to_exitcode(status))


def _tell(connection: Connection, *said: object) -> None:
    with suppress(OSError):  # Whoever asked may be gone.
        connection.send(said)


def _become(request: Request) -> NoReturn:
    """Be the command or the script that was asked for."""
    _, arguments, folder, environment, quickly, *streams = request
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
    asked_for = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *(path for path in asked_for if path and path not in sys.path)]
    if SILENT_AT_MOST_S in environment:
        sys.modules["longmemeval.cli.main"].__dict__[SILENT_AT_MOST_S] = float(environment[SILENT_AT_MOST_S])
    if "COLUMNS" in environment:  # Of the process that this one was forked from, they were read on import.
        output = sys.modules["longmemeval.cli.output"]
        output.out.__init__()
        output.err.__init__(stderr=True)
    script = bool(arguments) and arguments[0].endswith(".py")
    sys.argv = arguments if script else ["longmemeval", *arguments]
    try:
        if script:
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            runpy.run_module("longmemeval", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if quickly and isinstance(end.code, int | None):
            _end(end.code or 0)
        raise
    if quickly:
        _end(0)
    sys.exit()


def _end(code: int) -> NoReturn:
    """End as an interpreter does: threads, functions of `atexit`, streams. Modules are not taken apart."""
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _import(module: str) -> None:
    """Import a module, unless this environment has not what it needs: a command that asks for it then says so."""
    with suppress(ModuleNotFoundError):
        import_module(module)


def _read_one_session() -> None:
    """Have the rules of the engine and of typed nodes read a message: their patterns take longer than it does."""
    records, when = import_module("longmemeval.records"), datetime(2024, 3, 1)
    said = "I moved to Lille yesterday, and I have left the choir."
    import_module("longmemeval.memory.engram.engine").Engine().tell(said, when)
    session = records.Session("s", when, "2024/03/01", (records.Turn("user", said),))
    messages = import_module("longmemeval.storage.messages").haystack_messages(records.Haystack("h", (session,)))
    nodes = import_module("longmemeval.memory.nodes.library").shipped_nodes().nodes
    import_module("longmemeval.memory.nodes.extraction.rules").rule_entries(session, messages, nodes)


def _load() -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    for library in LIBRARIES:
        _import(library)
    package = Path(__file__).resolve().parents[1] / "longmemeval"
    for path in sorted(package.rglob("*.py")):
        # Databases are seldom asked for, take seconds to import and begin threads, which a fork does not survive.
        if path.name != "__main__.py" and path.stem not in DATABASES:
            _import(".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"))
    # What commands read and compile when they first need it, the same for all.
    import_module("longmemeval.judges.offline.refusal").abstains("I do not know: you have never mentioned that.")
    registry = import_module("longmemeval.memory.configuration")
    registry.known_parts()
    for name in registry.MEMORIES.built_in:
        import_module("longmemeval.memory.configuration").resolve_configuration(name)
    import_module("longmemeval.core.part_options").PartOptions()
    import_module("longmemeval.core.text.dates_in_text.phrases").find_matches("today")
    _read_one_session()
    for encoding in ("o200k_base", "cl100k_base"):
        import_module("longmemeval.llm.tokens").encoding_of(encoding)
    # How long a command takes depends on the machine, and what it prints must not.
    sys.modules["longmemeval.cli.main"].__dict__[SILENT_AT_MOST_S] = 3600.0
    # A collection in a forked process would copy all that is shared.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


if __name__ == "__main__":
    if not os.environ.get(UNLOADED):
        _load()
    listener = socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None
    _serve(Connection(int(sys.argv[1])), listener)
    if listener:
        shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)
