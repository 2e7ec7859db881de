"""Turns a class with `add(session)` and `search(query, *, date, limit)` into a memory service of protocol version 1.

    python -m longmemeval.memory.external.serve mymem:MyMemory

is a child process that answers JSON lines; `serve_http` does it over HTTP. The standard library is all that this
file and the folder `serving` beside it need: it can also be run by its path in an environment without longmemeval. What
the class prints goes to standard error. Every scope gets an object of its own; the methods of one object that are not
`async` run in one thread, the same from the first to the last.
"""

import argparse
import asyncio
import inspect
import json
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from longmemeval.memory.external.serving.hits import items
    from longmemeval.memory.external.serving.records import Fault, Message, Session
    from longmemeval.memory.external.serving.scope import Scope
else:  # Run by its path: its siblings are found beside it, and its own folder is no place to import from.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != _here]
    _siblings = sys.modules["longmemeval_serving"] = ModuleType("longmemeval_serving")
    _siblings.__path__ = [str(_here / "serving")]
    from longmemeval_serving.hits import items
    from longmemeval_serving.records import Fault, Message, Session
    from longmemeval_serving.scope import Scope

__all__ = [
    "PROTOCOL",
    "Fault",
    "MemoryServer",
    "Message",
    "Session",
    "answer",
    "serve_lines",
    "server_of",
]

PROTOCOL = 1
HANDED = (
    "scope",
    "reference",
    "chat_base_url",
    "chat_model",
    "embedding_base_url",
    "embedding_model",
    "embedding_dimension",
)
"""What `open` says that a class gets if its `__init__` names it; what is empty only where there is no default."""

_FORMS = {
    "add": "add(self, session)",
    "search": "search(self, query, *, date, limit)",
    "delete": "delete(self, subject)",
    "list": "list(self)",
}
"""How a class defines the methods whose arguments are fixed."""
_MODELS = {"chat_base_url", "embedding_base_url"}
"""A class that names one of these calls its models there."""


class MemoryServer:
    """Answers the methods of the protocol by objects of one class.

    Args:
        memory_class: makes an object from what the user has set. Two attributes of it are read where they are there:
            `capabilities`, a mapping over those of the protocol, and `packages`, the packages whose versions matter.
        name: what the service calls itself.
    """

    def __init__(self, memory_class: Callable[..., Any], name: str) -> None:
        self._class, self._name = memory_class, name
        self._persist = "directory" if self._all("save", "load") else "service" if self._all("reference") else "none"
        self._scopes: dict[str, Scope] = {}
        names = ["hello", "open", "add", "ready", "search", "delete", "snapshot", "list", "reset", "shutdown"]
        self._methods = {name: getattr(self, f"_{name}") for name in names}

    def _all(self, *methods: str) -> bool:
        """Whether the class has all of these methods."""
        return all(callable(getattr(self._class, name, None)) for name in methods)

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one call.

        Raises:
            Fault: it failed; what the class raises becomes one, with the place.
        """
        if method not in self._methods:
            raise Fault("unknown_method", f"there is no method '{method}'")
        try:
            return dict(await self._methods[method](params))
        except Fault as fault:
            if fault.code == "bad_hit":
                fault.args = (f"{defined(self._class, method)}{fault}",)
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise Fault("failed", _located(error, self._class, method)) from error
        except BaseException as error:  # Also SystemExit and KeyboardInterrupt: the class raised it, nobody else.
            raise Fault("failed", _located(error, self._class, method)) from error

    async def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("protocol") != PROTOCOL:
            raise Fault("unknown_protocol", f"this service speaks protocol {PROTOCOL}")
        packages = {name: _version(name) for name in getattr(self._class, "packages", ())}
        usual = {"dates": "native", "provenance": "message", "persist": self._persist, "max_parallel": 8}
        usual["models"] = "offered" if _MODELS & {*inspect.signature(self._class).parameters} else "unknown"
        told = dict(getattr(self._class, "capabilities", {}))
        return {
            "protocol": PROTOCOL,
            "name": self._name,
            "packages": {"python": sys.version.split()[0], **packages},
            "capabilities": {**usual, "list": self._all("list"), "delete": self._all("delete"), **told},
        }

    async def _open(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arguments, works_in_folder = self._arguments(params)
        if old := self._scopes.pop(params["scope"], None):
            await old.close()
        make = partial(self._class, **arguments)
        folder, mode = params["directory"], params["mode"]
        scope = Scope(make, folder, mode, persist=self._persist, works_in_folder=works_in_folder)
        await scope.make()
        if self._persist == "directory" and not await scope.load() and mode == "read":
            raise Fault("nothing_saved", "the directory holds no saved memory")
        self._scopes[params["scope"]] = scope
        return {"batch_ids": scope.batches.added}

    def _arguments(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """What the class is made from besides a folder, and whether it asks for one."""
        configuration = params.get("configuration") or {}
        try:
            signature = inspect.signature(self._class)
            named = signature.parameters
            handed = {name: params.get(name, "") for name in HANDED if name in named}
            usual = {name for name in handed if not handed[name] and named[name].default is not inspect.Parameter.empty}
            arguments = {name: value for name, value in handed.items() if name not in usual} | configuration
            works_in_folder = "folder" in named and "folder" not in configuration
            signature.bind(**arguments, **({"folder": None} if works_in_folder else {}))
        except (TypeError, ValueError) as error:
            raise Fault("bad_configuration", f"{self._name} cannot be made: {error}") from error
        return arguments, works_in_folder

    def _scope(self, params: Mapping[str, Any]) -> Scope:
        if params["scope"] not in self._scopes:
            raise Fault("not_open", "this scope is not open")
        return self._scopes[params["scope"]]

    async def _add(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope, told = self._scope(params), params["session"]
        session = Session(
            told["id"],
            datetime.fromisoformat(told["date"]),
            tuple(Message(one["id"], one["role"], one["speaker"], one["content"]) for one in told["messages"]),
        )
        async with scope.lock:
            await scope.add(params["batch_id"], session)
            return await scope.usage()

    async def _ready(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope = self._scope(params)
        told = await scope.run(scope.memory.ready) if scope.has("ready") else True
        if isinstance(told, Mapping):
            for one in told.get("failed", ()):
                scope.batches.fail(one["batch_id"])
            return dict(told)
        return {"state": "ready", "done": len(scope.batches.added)} if told else {"state": "pending"}

    async def _search(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope, limit = self._scope(params), params["limit"]
        date = datetime.fromisoformat(params["as_of"])
        search = scope.memory.search
        by_tokens = "token_budget" in inspect.signature(search).parameters
        budget = {"token_budget": params.get("token_budget")} if by_tokens else {}
        hits = await scope.run(search, params["query"], date=date, limit=limit, **budget)
        found = items("search", hits)
        return {"items": found[:limit], "truncated": len(found) > limit, **await scope.usage()}

    async def _delete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope = self._scope(params)
        if not scope.has("delete"):
            raise Fault("unknown_method", f"{self._name} has no method 'delete'")
        async with scope.lock:
            await scope.delete(params["subject"])
        return {}

    async def _snapshot(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope = self._scope(params)
        async with scope.lock:
            reference = await scope.keep()
        await self._scopes.pop(params["scope"]).close()
        return {"reference": reference}

    async def _list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope = self._scope(params)
        if not scope.has("list"):
            raise Fault("unknown_method", f"{self._name} has no method 'list'")
        return {"items": items("list", await scope.run(scope.memory.list))}

    async def _reset(self, params: Mapping[str, Any]) -> dict[str, Any]:
        scope = self._scope(params)
        async with scope.lock:
            await scope.reset()
        return {}

    async def _shutdown(self, params: Mapping[str, Any]) -> dict[str, Any]:
        while self._scopes:
            await self._scopes.popitem()[1].close()
        return {}


def _located(error: BaseException, memory_class: Callable[..., Any], method: str) -> str:
    """Return the error with the last line of whoever wrote the class, not that of a library it calls.

    A method that does not take what it is called with has no such line; its own is named, and its right form.
    """
    here = Path(__file__)
    ours = (here, here.with_name("serving"))
    libraries = [Path(path) for path in {*sysconfig.get_paths().values()}]
    theirs = Path(getattr(sys.modules.get(memory_class.__module__), "__file__", None) or here)
    frames = [
        (Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) not in ours and Path(frame.filename).parent not in ours
    ]
    written = [
        (file, line)
        for file, line in frames
        if file == theirs or not (str(file).startswith("<") or any(file.is_relative_to(one) for one in libraries))
    ]
    where = "".join(f"{_shown(str(file))}, line {line}: " for file, line in (written or frames)[-1:])
    told = f"{type(error).__name__}" + (f": {error}" if str(error) else "")
    if not where and isinstance(error, TypeError) and method in _FORMS:
        return f"{defined(memory_class, method)}{told}; define it as {_FORMS[method]}"
    return f"{where}{told}"


def defined(memory_class: Callable[..., Any], method: str) -> str:
    """Return the place where a method of the class is defined; empty if it has none in Python."""
    code = getattr(inspect.unwrap(getattr(memory_class, method, memory_class)), "__code__", None)
    return f"{_shown(code.co_filename)}, line {code.co_firstlineno}: " if code else ""


def _shown(file: str) -> str:
    """Return the name of a file; a cell of a notebook by its number, as its tracebacks name it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return Path(file).name if number is None else f"cell {number}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


async def answer(server: MemoryServer, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """`{"result": …}` or `{"error": …}`."""
    try:
        return {"result": await server.call(method, params)}
    except Fault as fault:
        if fault.__cause__:
            traceback.print_exception(fault.__cause__)
        return {"error": {"code": fault.code, "message": str(fault), "retryable": fault.retryable}}
    except asyncio.CancelledError:  # By its own hand: nobody else cancels a call here.
        return {"error": {"code": "failed", "message": f"the class cancelled its own {method}", "retryable": False}}


async def serve_lines(server: MemoryServer) -> None:
    """Answer the requests on standard input until it ends or `shutdown` comes; calls go on side by side."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What the class or its libraries print, from C too, must not come between the answers.
    sys.stdout = sys.stderr
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        for line in iter(sys.stdin.buffer.readline, b""):
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, b"")

    async def reply(request: Mapping[str, Any]) -> None:
        document = {"id": request["id"], **await answer(server, request["method"], request["params"])}
        answers.write(json.dumps(document).encode() + b"\n")
        answers.flush()

    threading.Thread(target=read, daemon=True).start()
    under_way = set[asyncio.Task[None]]()
    while line := await lines.get():
        request = json.loads(line)
        task = asyncio.create_task(reply(request))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        if request["method"] == "shutdown":
            await task
            break
    answers.close()
    os._exit(0)  # A thread that still computes must not keep the process.


def server_of(target: str) -> MemoryServer:
    """The server for the class that `package.module:Class` or `file.py:Class` names; modules beside it count too."""
    module, _, attribute = target.rpartition(":")
    file = Path(module) if module.endswith(".py") else None
    sys.path.insert(0, str(file.parent) if file else os.getcwd())
    return MemoryServer(getattr(import_module(file.stem if file else module), attribute), attribute)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end. A task that the class began and that raises `SystemExit` does not end the others."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    while not task.done():
        with suppress(SystemExit):
            loop.run_until_complete(task)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serve a memory class to longmemeval.")
    parser.add_argument("memory", help="package.module:Class or file.py:Class")
    try:
        run(serve_lines(server_of(parser.parse_args().memory)))
    except KeyboardInterrupt:
        os._exit(130)  # The thread that reads would keep the interpreter from ending.


if __name__ == "__main__":
    main()
