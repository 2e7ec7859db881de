"""Services that hang, die, flood, write garbage or answer late: each is told of as what it is, and ended alone."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longmemeval.memory.external.ingestion import batches
from longmemeval.memory.external.messages import Open, ReadyResult
from longmemeval.memory.external.serve import server_of
from longmemeval.memory.external.transports.child_process import ChildProcess
from longmemeval.memory.external.transports.service import HttpService, MemoryService, Timeouts
from longmemeval.memory.external.transports.transport import InProcess, ServiceError
from tests.memory.external.test_transports import IDS, MESSAGES, found
from tests.server import nobody

QUICK = Timeouts(open=1.0, no_progress=0.3, shutdown=0.5)
PATIENT = Timeouts(shutdown=0.5)
"""For faults that are noticed as soon as they happen."""

CHILD = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    request = json.loads(line)
    number, method = request["id"], request["method"]
    def reply(result, number=number):
        sys.stdout.write(json.dumps({"id": number, "result": result}) + "\\n"); sys.stdout.flush()
    if method == "hello":
        reply({"protocol": 1, "name": "faulty"})
    elif method == "open":
        FAULT
    elif method == "shutdown":
        break
    else:
        reply({"state": "pending", "done": 1, "pending": 2})
"""


def child(tmp_path: Path, fault: str, timeouts: Timeouts = PATIENT) -> MemoryService:
    file = tmp_path / "child.py"
    file.write_text(CHILD.replace("FAULT", fault))
    return MemoryService(lambda on_progress: ChildProcess([sys.executable, str(file)], on_progress), timeouts)


def failure(service: MemoryService, *, ended: bool = True) -> ServiceError:
    """What opening a scope fails with; afterwards the service can be begun anew."""

    async def work() -> ServiceError:
        with pytest.raises(ServiceError) as told:
            await service.open(Open("h_1", "", "prepare"))
        assert (await service.hello()).name == "faulty"
        assert service.beginnings == 1 + ended
        await service.close()
        return told.value

    return asyncio.run(work())


FAULTS = {
    "time.sleep(60)": (r"The memory did not answer open within 1 s", "silent"),
    "sys.stderr.write('no key set\\n'); os._exit(3)": (
        r"(?s)ended by itself with exit code 3\. It last logged:\nno key set",
        "gone",
    ),
    "subprocess.Popen(['sleep', '20'], start_new_session=True); os._exit(3)": (
        "ended by itself with exit code 3",
        "gone",
    ),
    "os.close(0); time.sleep(60)": ("closed its input", "gone"),
    "os.kill(os.getpid(), 9)": ("was killed by signal 9", "gone"),
    "print('loading model …', flush=True); time.sleep(60)": (
        "wrote a line that is not a message .*loading model …",
        "garbage",
    ),
    "reply({}, 99); time.sleep(60)": ("answered a request that was never sent: .*99", "garbage"),
    "reply({'batch_ids': 'all'})": (
        "result of open does not follow the protocol: .*batch_ids",
        "garbage",
    ),
    "sys.stdout.write('x' * (17 << 20)); sys.stdout.flush(); time.sleep(60)": ("a line of more than 16 MB", "garbage"),
    "note = json.dumps({'method': 'progress', 'params': {'scope': 'h_1', 'done': 0}, 'x': 'x' * 9**6})\n"
    "        for _ in range(50): print(note, flush=True)": ("flooded its output: more than 16 MB", "garbage"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_child_is_told_of_and_ended(fault: str, tmp_path: Path) -> None:
    message, code = FAULTS[fault]
    refused = "result of" in message
    error = failure(child(tmp_path, fault, QUICK if code == "silent" else PATIENT), ended=not refused)
    with pytest.raises(ServiceError, match=message):
        raise error
    assert error.code == code
    if not refused and code != "silent":
        assert "process:" in str(error)


@pytest.mark.slow
def test_what_a_child_logs_is_kept_within_bounds_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-secret-of-someone")
    log = "sys.stderr.write('noise\\n' * 10**6 + os.environ['SOME_API_KEY'] + ' is refused\\n')"
    told = str(failure(child(tmp_path, f"{log}; os._exit(1)")))
    assert "[redacted] is refused" in told
    assert len(told) < 5000


@pytest.mark.slow
def test_what_a_child_began_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    begun = f"with open({str(pid)!r}, 'w') as file: file.write(str(subprocess.Popen(['sleep', '600']).pid))"
    failure(child(tmp_path, f"{begun}\n        print('no message', flush=True); time.sleep(600)"))
    grandchild = Path("/proc") / pid.read_text() / "stat"
    deadline = time.monotonic() + 60
    while grandchild.exists() and grandchild.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_progress_gives_a_call_more_time(tmp_path: Path) -> None:
    progress = "{'method': 'progress', 'params': {'scope': 'h_1', 'done': DONE}}"
    steps = f"for n in range(1, 11): time.sleep(0.5); print(json.dumps({progress}), flush=True)\n        END"
    timeouts = Timeouts(open=4.0, shutdown=0.5)

    async def work() -> None:
        opened = (one.open(Open("h_1", "", "prepare")) for one in (grows, stands))
        grown, stood = await asyncio.gather(*opened, return_exceptions=True)
        assert not isinstance(grown, BaseException)
        assert isinstance(stood, ServiceError)
        assert "did not answer open" in str(stood)
        await asyncio.gather(grows.close(), stands.close())

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    grows, stands = (
        child(tmp_path / name, steps.replace("DONE", done).replace("END", end), timeouts)
        for name, done, end in (("a", "n", "reply({})"), ("b", "1", "time.sleep(600)"))
    )
    asyncio.run(work())


@pytest.mark.slow
def test_a_scope_that_stays_pending_is_given_up(tmp_path: Path) -> None:
    service = child(tmp_path, "reply({})", Timeouts(no_progress=0.3, shutdown=0.5))

    async def work() -> None:
        await service.open(Open("h_1", "", "prepare"))
        with pytest.raises(ServiceError, match=r"no progress for 0\.3 s: 1 batches are done, 2 are not"):
            await service.ready("h_1")
        await service.close()

    asyncio.run(work())


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    service = MemoryService(lambda on_progress: ChildProcess(["no-such-memory", "--x"], on_progress))
    with pytest.raises(ServiceError, match=r"cannot be started: .*no-such-memory"):
        asyncio.run(service.hello())


Reply = tuple[int, object]


@contextmanager
def http(*replies: Reply) -> Iterator[tuple[str, list[str]]]:
    """A server that gives each reply once, the last for ever, and what it was asked; at status 0 it hangs up."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            status, body = replies[min(len(asked), len(replies)) - 1]
            if not status:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


HELLO: Reply = (200, {"protocol": 1, "name": "faulty"})


def refusal(*, retryable: bool) -> Reply:
    return 500, {"error": {"code": "busy", "message": "index locked", "retryable": retryable}}


def over_http(address: str) -> MemoryService:
    return MemoryService(lambda on_progress: HttpService(address), QUICK)


@pytest.mark.slow
def test_what_may_pass_is_tried_again_and_nothing_else() -> None:
    async def ready(address: str) -> ReadyResult:
        service = over_http(address)
        try:
            return await service.ready("h_1")
        finally:
            await service.close()

    done = (200, {"state": "ready", "done": 3})
    with http(HELLO, (503, None), refusal(retryable=True), done) as (address, asked):
        assert asyncio.run(ready(address)).done == 3
        assert asked[:4] == ["/v1/hello", "/v1/ready", "/v1/ready", "/v1/ready"]
    with http(HELLO, refusal(retryable=False)) as (address, asked), pytest.raises(ServiceError, match="index locked"):
        asyncio.run(ready(address))
    assert asked.count("/v1/ready") == 1
    with http((404, "not here")) as (address, _), pytest.raises(ServiceError, match="replied 404 to hello"):
        asyncio.run(ready(address))
    with http(HELLO, (0, None), (0, None), done) as (address, asked):
        assert asyncio.run(ready(address)).done == 3
    with http(HELLO, (0, None)) as (address, asked), pytest.raises(ServiceError) as told:
        asyncio.run(ready(address))
    assert "closed the connection instead of answering ready" in str(told.value)
    assert "more time" not in str(told.value)
    with pytest.raises(ServiceError, match="The memory service cannot be reached"):
        asyncio.run(ready(nobody().removesuffix("/v1")))


@pytest.mark.slow
def test_another_version_is_refused() -> None:
    told = "speaks version 2 of the protocol, this is version 1"
    with http((200, {"protocol": 2, "name": "newer"})) as (address, _), pytest.raises(ServiceError, match=told):
        asyncio.run(over_http(address).hello())


BLOCKING = """
import threading, time
class Slow:
    def __init__(self): self.thread = threading.get_ident()
    def add(self, session):
        assert threading.get_ident() == self.thread
        time.sleep(60)
    def search(self, query, *, date, limit): return []
    async def ready(self): return threading.get_ident() == self.thread
"""


def test_a_class_that_hangs_stops_neither_the_loop_nor_the_process(tmp_path: Path) -> None:
    """In a process of its own: it must come to its end although the class never does."""
    (tmp_path / "slow.py").write_text(BLOCKING)
    work = f"""
import asyncio, sys, time
sys.path[:0] = [{str(tmp_path)!r}, {str(Path.cwd())!r}]
from tests.memory.external.test_transports import MESSAGES, IDS
from longmemeval.memory.external.ingestion import batches
from longmemeval.memory.external.transports.transport import InProcess
from longmemeval.memory.external.serve import MemoryServer
from longmemeval.memory.external.messages import Open
from longmemeval.memory.external.serve import server_of
from longmemeval.memory.external.transports.service import Timeouts
from longmemeval.memory.external.transports.service import MemoryService
import slow
async def main():
    server = MemoryServer(slow.Slow, "slow")
    service = MemoryService(lambda on_progress: InProcess(server), Timeouts(add=2.0, shutdown=0.2))
    await service.open(Open("h_1", "", "prepare"))
    adding = asyncio.create_task(service.add(next(batches("h_1", MESSAGES, IDS, "session"))))
    ticks = 0
    while not adding.done():
        await asyncio.sleep(0.01); ticks += 1
    print("ticks", ticks, adding.exception())
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=200, check=True)
    assert "did not answer add within 2 s" in done.stdout
    assert int(done.stdout.split()[1]) > 5


USER_FAULTS = """
class Mine:
    def add(self, session):
        self.sessions[session.id] = session
    def search(self, query, *, date, limit):
        return HITS
"""


@pytest.mark.parametrize(
    ("hits", "told"),
    [
        ("[{'text': 'x', 'msg_ids': []}]", r"a hit has no field 'msg_ids' \(did you mean 'message_ids'\?\); it can"),
        ("[{'text': 'x', 'zzz': []}]", "mine.py, line 5: a hit has no field 'zzz'; it can have text, "),
        ("[3]", "a hit is a text, or has the field 'text' with one; here is a int"),
        ("[{'text': 'x', 'message_ids': 'm_1'}]", "'message_ids' of a hit is a list, not one id"),
        ("[{'text': 'x', 'score': object()}]", "mine.py, line 6|float"),
        ("[{'text': 'x', 'kind': 'nonsense'}]", "result of search does not follow the protocol: .*kind"),
    ],
)
def test_a_users_mistake_is_named(hits: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(USER_FAULTS.replace("HITS", hits))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    async def work(service: MemoryService) -> None:
        await service.open(Open("h_1", "", "prepare"))
        with pytest.raises(ServiceError, match=r"mine\.py, line 4: AttributeError: 'Mine' object has no attribute"):
            await service.add(next(batches("h_1", MESSAGES, IDS, "session")))
        with pytest.raises(ServiceError, match=told):
            await found(service, "beagle")

    asyncio.run(work(MemoryService(lambda on_progress: InProcess(server_of("mine:Mine")))))
