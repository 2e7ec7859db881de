"""A memory server that speaks MCP, by the two methods of a memory: a mapping file says which of its tools do what.

Runs in an environment of its own, where longmemeval is not. The mapping file is named by `LONGMEMEVAL_ADAPTER_FILE`.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session
if TYPE_CHECKING or __package__:
    from longmemeval.memory.products.mcp import mapping
else:  # In the environment of the product.
    mapping = import_module("mapping")

_TIMEOUT_S = 600.0
_PAGE = 100


class _Client(Protocol):
    """What is used of the official client."""

    async def call_tool(self, name: str, arguments: object, *, read_timeout_seconds: float) -> "_Result":
        """The result of a tool."""


class _Result(Protocol):
    """What is used of a result."""

    content: Sequence[object]
    is_error: bool
    structured_content: object


class _Passing:
    """One history at one server, which is begun at the first call.

    Args:
        folder: an empty one to work in; `{folder}` in the mapping.
        chat_base_url: where the server may call chat models; `{chat_base_url}`, and so on.
        chat_model: what answers there.
        embedding_base_url: where vectors come from.
        embedding_model: what makes them there.
        embedding_dimension: their length.
    """

    mapping: ClassVar[Mapping[str, Any]]
    packages: ClassVar[Sequence[str]]
    capabilities: ClassVar[Mapping[str, object]]

    def __init__(
        self,
        folder: str,
        chat_base_url: str = "",
        chat_model: str = "",
        embedding_base_url: str = "",
        embedding_model: str = "",
        embedding_dimension: int = 0,
    ) -> None:
        self._folder = Path(folder) / "server"
        self._folder.mkdir(exist_ok=True)
        self._values: dict[str, object] = {
            "folder": str(self._folder),
            "bin": str(Path(sys.executable).parent),
            "chat_base_url": chat_base_url,
            "chat_model": chat_model,
            "embedding_base_url": embedding_base_url,
            "embedding_model": embedding_model,
            "embedding_dimension": embedding_dimension,
        }
        self._refs: dict[str, list[str]] = {}
        self._client: _Client | None = None
        self._ending = asyncio.Event()
        self._living: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def add(self, session: "Session") -> None:
        """Hand a session, or a part of one, to the tool for it."""
        messages = session.messages
        first = messages[0]
        told = self.mapping["add"]
        result = await self._call(
            "add",
            session=session.id,
            date=session.date.isoformat(),
            day=f"{session.date:%Y-%m-%d}",
            text="\n".join(f"{one.speaker or one.role}: {one.content}" for one in messages),
            message=first.id,
            messages=[one.id for one in messages],
            role=first.role,
            speaker=first.speaker or first.role,
            content="\n".join(one.content for one in messages),
        )
        if "ref" in told:
            refs = mapping.at(result, told["ref"], "add.ref")
            for ref in refs if isinstance(refs, list) else [refs]:
                self._refs.setdefault(str(ref), []).extend(one.id for one in messages)

    async def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, object]]:
        """What the tool for it finds."""
        result = await self._call("search", query=query, limit=limit, asked=date.isoformat())
        return [self._hit(one, "search") for one in self._items(result, "search")]

    async def ready(self) -> bool:
        """What the tool for it says; without one, what was added can be found."""
        if "ready" not in self.mapping:
            return True
        found = mapping.at(await self._call("ready"), self.mapping["ready"].get("path", ""), "ready.path")
        return bool(found == self.mapping["ready"].get("equals", True))

    async def list(self) -> "list[dict[str, object]]":
        """All that the tool for it shows, page by page."""
        return [self._hit(one, "list") async for one in self._listed()]

    async def _listed(self) -> AsyncIterator[object]:
        page, offset = self.mapping["list"].get("page", _PAGE), 0
        while True:
            found = self._items(await self._call("list", page=page, offset=offset), "list")
            for one in found:
                yield one
            offset += len(found)
            if len(found) < page or "{offset}" not in str(self.mapping["list"].get("arguments", "")):
                return

    async def close(self) -> None:
        """End the server."""
        if self._living:
            self._ending.set()
            await asyncio.wait({self._living})
        self._client, self._living, self._ending = None, None, asyncio.Event()

    def _hit(self, found: object, table: str) -> dict[str, object]:
        places = self.mapping[table].get("hit") or self.mapping["search"]["hit"]
        told = {name: mapping.at(found, path, f"{table}.hit.{name}") for name, path in places.items() if name != "kind"}
        hit = {name: value for name, value in told.items() if value not in (None, "") and name != "ref"}
        hit["text"] = str(told["text"])
        for name in {"message_ids", "session_ids"} & hit.keys():
            hit[name] = hit[name] if isinstance(hit[name], list) else [hit[name]]
        if "ref" in told:
            hit["message_ids"] = self._refs[str(told["ref"])]
        return {"kind": places.get("kind", "message"), **hit}

    def _is_empty(self, result: object, table: str) -> bool:
        """Whether the result says that there is nothing yet, in the way of the server."""
        empty = self.mapping[table].get("empty", {})
        return bool(empty) and isinstance(result, Mapping) and bool(empty.items() <= result.items())

    def _items(self, result: object, table: str) -> Sequence[object]:
        if self._is_empty(result, table):
            return []
        found = mapping.at(result, self.mapping[table].get("items", ""), f"{table}.items")
        return found if isinstance(found, Sequence) and not isinstance(found, str) else [found]

    async def _call(self, table: str, **values: object) -> object:
        """The result of the tool of a table: structured where it is, else its texts, as JSON where they are."""
        told = self.mapping[table]
        arguments = mapping.filled(told.get("arguments", {}), {**self._values, **values})
        client = await self._started()
        result = await client.call_tool(told["tool"], arguments, read_timeout_seconds=_TIMEOUT_S)
        texts = [str(one.text) for one in result.content if hasattr(one, "text")]
        if result.is_error:
            raise RuntimeError(f"{told['tool']} failed: {' '.join(texts)}")
        read = result.structured_content
        if read is None:
            parts = [_read(text) for text in texts]
            read = parts[0] if len(parts) == 1 else parts
        failed = "ok" in told and not mapping.at(read, told["ok"], f"{table}.ok")
        failed |= isinstance(read, Mapping) and bool(read.get(told.get("error"))) and not self._is_empty(read, table)
        if failed:
            raise RuntimeError(f"{told['tool']} failed: {' '.join(texts)}")
        return read

    async def _started(self) -> _Client:
        async with self._starting:
            if self._client is None:
                begun: asyncio.Future[_Client] = asyncio.get_running_loop().create_future()
                # A client has to be opened and closed by the same task.
                self._living = asyncio.create_task(self._live(begun))
                self._client = await begun
        return self._client

    async def _live(self, begun: "asyncio.Future[_Client]") -> None:
        mcp: Any = import_module("mcp")
        server: Any = mapping.filled(self.mapping["server"], self._values)
        to = server.get("url")
        if not to:
            first, *rest = server["command"]
            environment = {**os.environ, **{key: str(value) for key, value in server.get("environment", {}).items()}}
            to = mcp.StdioServerParameters(command=first, args=rest, env=environment, cwd=str(self._folder))
        try:
            async with mcp.Client(to) as client:
                _check_tools(self.mapping, (await client.list_tools()).tools)
                begun.set_result(client)
                await self._ending.wait()
        except Exception as error:
            if not begun.done():  # Later, whoever calls a tool is told.
                begun.set_exception(_first(error))


class _Keeping(_Passing):
    """A server that keeps everything in `{folder}`."""

    async def save(self, folder: str) -> None:
        """Write everything to `folder`."""
        await self.close()  # What it has in memory is on the disk then.
        shutil.copytree(self._folder, Path(folder) / "server")
        (Path(folder) / "refs.json").write_text(json.dumps(self._refs))

    async def load(self, folder: str) -> None:
        """Take up what was saved; it is not written to."""
        await self.close()
        shutil.rmtree(self._folder)
        shutil.copytree(Path(folder) / "server", self._folder)
        self._refs = json.loads((Path(folder) / "refs.json").read_text())
        await self._started()  # Beginning the server is no part of a search.


def memory_of(file: Path) -> type[_Passing]:
    """The class that a mapping file describes.

    Raises:
        MappingError: the file is faulty.
    """
    told = mapping.read_mapping(file)
    usual = "directory" if "{folder}" in str(told["server"]) else "none"
    keeps = told.get("capabilities", {}).get("persist", usual)
    capabilities = {
        **{"dates": "none", "provenance": "none", "unit": "session", "max_parallel": 2, "telemetry": "unknown"},
        **{"persist": keeps, "list": "list" in told},
        **told.get("capabilities", {}),
    }
    packages = ("mcp", *told.get("packages", ()))
    fields = {"mapping": told, "packages": packages, "capabilities": capabilities}
    return type("McpMemory", (_Keeping if keeps == "directory" else _Passing,), fields)


def __getattr__(name: str) -> type[_Passing]:
    """`McpMemory`, by the file that the environment names."""
    if name != "McpMemory":
        raise AttributeError(name)
    return memory_of(Path(os.environ["LONGMEMEVAL_ADAPTER_FILE"]))


def _first(error: BaseException) -> BaseException:
    """The error behind groups of one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _read(text: str) -> object:
    try:
        read: object = json.loads(text)
    except ValueError:
        return text
    return read


def _check_tools(told: Mapping[str, Any], tools: Iterable[Any]) -> None:
    """Refuse a mapping that names a tool, or an argument of one, that the server does not have."""
    schemas: Mapping[str, Any] = {one.name: one.input_schema for one in tools}
    for table in ("add", "search", "ready", "list", "reset"):
        if table not in told:
            continue
        tool = told[table]["tool"]
        if tool not in schemas:
            raise mapping.MappingError(
                f"'{table}.tool': the server has no tool '{tool}'. {mapping.did_you_mean(tool, schemas)}"
            )
        known = schemas[tool].get("properties", {})
        for name in told[table].get("arguments", {}):
            if known and name not in known:
                raise mapping.MappingError(
                    f"'{table}.arguments': {tool} takes no '{name}'. {mapping.did_you_mean(name, known)}"
                )
