"""Graphiti, the open-source engine of Zep: a graph of facts with times, in embedded Kuzu, FalkorDB or Neo4j.

Runs in an environment of its own: the standard library and the product are all it imports.
"""

import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session

Theirs: TypeAlias = Any
"""An object of the product, whose types are not known here."""

_KEY, _EPISODES, _DATABASE = "longmemeval", "episodes.json", "graph.kuzu"
_KUZU_SIZE = {"max_db_size": 1 << 36, "buffer_pool_size": 1 << 28, "max_num_threads": 2}
"""Of one database. By default each reserves 8 TiB of addresses, so that a process could open no more than a dozen."""
_CANDIDATES = 4
"""Facts asked for, for each that is wanted, where some may not be valid yet."""


class Graphiti:
    """Graphiti: facts between people and things, each with the time from which and until which it holds.

    Args:
        folder: empty, to work in.
        per: what one episode is: a `turn`, so that facts lead back to messages, or a `session`, for a sixth of the
            cost.
        as_of: whether facts are left out that become valid only after the question is asked.
        nodes: how many summaries of people and things are found beside the facts.
        reranker: what orders facts: `rrf`, ranks fused, or the product's own `cross_encoder`, which asks the chat model
            about each fact.
        server: `neo4j://…`, `bolt://…` or `falkor://host:port`; an embedded Kuzu database without it. User and password
            are NEO4J_USER and NEO4J_PASSWORD, or FALKORDB_USER and FALKORDB_PASSWORD, in the environment.
        chat_base_url: where a chat model is called; as the product is configured itself if it is empty.
        chat_model: which one.
        embedding_base_url: where vectors are made; the same.
        embedding_model: by which model.
        embedding_dimension: longer vectors are cut to it; 0: as long as the endpoint makes them, or as the product
            is configured itself without one.
    """

    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "message",
        "unit": "session",
        "signals": ("vectors", "words"),
        "telemetry": "off",
    }
    packages: ClassVar = ("graphiti-core", "kuzu", "openai")

    def __init__(
        self,
        folder: Path,
        per: str = "turn",
        as_of: bool = True,
        nodes: int = 0,
        reranker: str = "rrf",
        server: str = "",
        chat_base_url: str = "",
        chat_model: str = "",
        embedding_base_url: str = "",
        embedding_model: str = "",
        embedding_dimension: int = 0,
    ) -> None:
        if per not in ("turn", "session"):
            raise ValueError(f"per is 'turn' or 'session', not '{per}'")
        if reranker not in ("rrf", "cross_encoder"):
            raise ValueError(f"reranker is 'rrf' or 'cross_encoder', not '{reranker}'")
        self._nodes, self._reranker = nodes, reranker
        self._folder, self._per, self._as_of, self._server = Path(folder), per, as_of, server
        self._chat = chat_base_url, chat_model
        self._embedder = embedding_base_url, embedding_model, embedding_dimension
        self._opened: Theirs = None
        self._group = f"longmemeval_{uuid.uuid4().hex[:16]}" if server else "history"
        self._episodes: dict[str, dict[str, list[str]]] = {}
        """What each episode was made from, by the product's id of it."""

    async def _graph(self) -> Theirs:
        if self._opened is None:
            os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"  # The product reads it once, when it is imported.
            driver = (
                _server_driver(self._server, self._group) if self._server else _kuzu_driver(self._folder / _DATABASE)
            )
            self._opened = import_module("graphiti_core").Graphiti(
                graph_driver=driver,
                llm_client=_chat_client(*self._chat),
                embedder=_embedding_client(*self._embedder),
                cross_encoder=_cross_encoder(*self._chat) if self._reranker == "cross_encoder" else _no_reranker(),
            )
            await self._opened.build_indices_and_constraints()
            if not self._server:
                await _make_word_indexes(driver)
        return self._opened

    async def add(self, session: "Session") -> None:
        """Add a session, as one episode or one for each message."""
        graph, messages = await self._graph(), [one for one in session.messages if one.content.strip()]
        parts = [[one] for one in messages] if self._per == "turn" else [messages]
        for place, part in enumerate(filter(None, parts)):
            # A microsecond keeps the order of turns, which the product knows by time alone.
            when = session.date.replace(tzinfo=UTC) + timedelta(microseconds=place)
            made = await graph.add_episode(
                name=part[0].id if self._per == "turn" else session.id,
                episode_body="\n".join(f"{one.speaker or one.role}: {one.content}" for one in part),
                source_description="a chat",
                reference_time=when,
                source=import_module("graphiti_core.nodes").EpisodeType.message,
                group_id=self._group,
            )
            told = {"session_ids": [session.id]}
            self._episodes[made.episode.uuid] = {"message_ids": [part[0].id], **told} if self._per == "turn" else told

    async def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """The best facts by vectors and words, fused by rank; facts that are valid no more say until when they were."""
        if not self._episodes:  # Opening a graph makes it, and would leave an empty one on a server.
            return []
        graph = await self._graph()
        recipes = import_module("graphiti_core.search.search_config_recipes")
        ranked = recipes.EDGE_HYBRID_SEARCH_RRF
        if self._reranker == "cross_encoder":
            ranked = recipes.EDGE_HYBRID_SEARCH_CROSS_ENCODER
        config = ranked.model_copy(deep=True)
        config.limit = limit * _CANDIDATES if self._as_of else limit
        found = await graph.search_(query, config=config, group_ids=[self._group])
        hits = [self._hit(edge, score) for edge, score in zip(found.edges, found.edge_reranker_scores, strict=False)]
        valid = [hit for hit in hits if not (self._as_of and hit["valid_from"] and hit["valid_from"] > date)]
        return (
            [*valid[: max(0, limit - self._nodes)], *await self._summaries(graph, query)]
            if self._nodes
            else valid[:limit]
        )

    async def _summaries(self, graph: Theirs, query: str) -> list[dict[str, Any]]:
        """What is said of the people and things that fit best, after the facts; by ranks fused, as there."""
        recipes = import_module("graphiti_core.search.search_config_recipes")
        config = recipes.NODE_HYBRID_SEARCH_RRF.model_copy(deep=True)
        config.limit = self._nodes
        found = await graph.search_(query, config=config, group_ids=[self._group])
        episodes = import_module("graphiti_core.nodes").EpisodicNode
        hits = []
        for node in found.nodes:
            named = await episodes.get_by_entity_node_uuid(graph.driver, node.uuid)
            sources = [self._episodes[one.uuid] for one in named if one.uuid in self._episodes]
            hits.append(
                {
                    "text": f"{node.name}: {node.summary}" if node.summary else node.name,
                    "kind": "summary",
                    "date": max((date for one in named if (date := _naive(one.valid_at))), default=None),
                    "message_ids": _each(sources, "message_ids"),
                    "session_ids": _each(sources, "session_ids"),
                }
            )
        return hits

    def _hit(self, edge: Theirs, score: float | None = None) -> dict[str, Any]:
        since, until = _naive(edge.valid_at), _naive(edge.invalid_at)
        sources = [self._episodes[one] for one in edge.episodes if one in self._episodes]
        return {
            "text": f"{edge.fact} (until {until.date().isoformat()})" if until else edge.fact,
            "kind": "fact",
            "date": since or _naive(edge.reference_time),
            "valid_from": since,
            "valid_to": until,
            "score": score,
            "message_ids": _each(sources, "message_ids"),
            "session_ids": _each(sources, "session_ids"),
        }

    async def list(self) -> "list[dict[str, Any]]":
        """All facts."""
        if not self._episodes:
            return []
        graph = await self._graph()
        try:
            found = await import_module("graphiti_core.edges").EntityEdge.get_by_group_ids(graph.driver, [self._group])
        except import_module("graphiti_core.errors").GroupsEdgesNotFoundError:
            return []
        return [self._hit(edge) for edge in found]

    async def forget(self, session: "Session") -> None:
        """Remove what an attempt at adding a session left that did not come to its end."""
        names = {session.id, *(one.id for one in session.messages)}
        await self._remove(lambda episode: episode.name in names)

    async def _remove(self, unwanted: Callable[[Theirs], bool]) -> None:
        graph = await self._graph()
        for one in await import_module("graphiti_core.nodes").EpisodicNode.get_by_group_ids(
            graph.driver, [self._group]
        ):
            if unwanted(one):
                await graph.remove_episode(one.uuid)
                self._episodes.pop(one.uuid, None)

    async def save(self, folder: Path) -> None:
        """Copy the database, closed; of one on a server, the name of the graph."""
        await self._graph()
        await self.close()
        if not self._server:
            for file in self._folder.glob(f"{_DATABASE}*"):
                shutil.copy2(file, folder)
        (folder / _EPISODES).write_text(json.dumps({"group": self._group, "episodes": self._episodes}))

    async def load(self, folder: Path) -> None:
        """Take up what was saved. What an attempt that was stopped left on a server since then is removed."""
        told = json.loads((folder / _EPISODES).read_text())
        self._group, self._episodes = told["group"], told["episodes"]
        for file in folder.glob(f"{_DATABASE}*"):
            shutil.copy2(file, self._folder)
        await self._graph()  # Opening it is no part of a search.
        if self._server:
            await self._remove(lambda episode: episode.uuid not in self._episodes)

    async def reset(self) -> None:
        """Remove the history's graph."""
        if self._server:
            await _remove_graph((await self._graph()).driver, self._group)
        await self.close()
        for file in self._folder.glob(f"{_DATABASE}*"):
            file.unlink()
        self._episodes.clear()

    async def close(self) -> None:
        """Close the database."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()
            if not self._server:  # Its driver leaves this to the garbage collector.
                opened.driver.client.close()
                opened.driver.db.close()


def _naive(date: datetime | None) -> datetime | None:
    """A date as it was given: the product takes ours for UTC."""
    if date is None:
        return None
    return (date.astimezone(UTC) if date.tzinfo else date).replace(tzinfo=None, microsecond=0)


def _each(sources: Sequence[dict[str, list[str]]], name: str) -> list[str]:
    return list(dict.fromkeys(one for source in sources for one in source.get(name, ())))


def _chat_client(base_url: str, model: str) -> Theirs:
    where = {"base_url": base_url, "api_key": _KEY} if base_url else {}
    which = {"model": model, "small_model": model} if model else {}
    config = import_module("graphiti_core.llm_client.config").LLMConfig(**where, **which)
    return import_module("graphiti_core.llm_client.openai_generic_client").OpenAIGenericClient(config=config)


def _embedding_client(base_url: str, model: str, dimension: int) -> Theirs:
    """The client that makes vectors. It cuts them, to 1024 numbers unless it is given another length."""
    module = import_module("graphiti_core.embedder.openai")
    where = {"base_url": base_url, "api_key": _KEY} if base_url else {}
    which = {"embedding_model": model} if model else {}
    length = {"embedding_dim": dimension or sys.maxsize} if dimension or base_url else {}
    return module.OpenAIEmbedder(module.OpenAIEmbedderConfig(**where, **which, **length))


def _cross_encoder(base_url: str, model: str) -> Theirs:
    """The product's own reranker: the chat model says for each fact whether it is relevant, by log-probabilities."""
    where = {"base_url": base_url, "api_key": _KEY} if base_url else {}
    config = import_module("graphiti_core.llm_client.config").LLMConfig(**where, **({"model": model} if model else {}))
    return import_module("graphiti_core.cross_encoder.openai_reranker_client").OpenAIRerankerClient(config=config)


def _no_reranker() -> Theirs:
    """The product wants one; the search that is used asks none."""
    client: Theirs = import_module("graphiti_core.cross_encoder.client").CrossEncoderClient

    async def rank(self: object, query: str, passages: list[str]) -> list[tuple[str, float]]:
        raise RuntimeError("no reranker is used")

    return type("NoReranker", (client,), {"rank": rank})()


def _kuzu_driver(file: Path) -> Theirs:
    kuzu: Theirs = import_module("kuzu")
    if not isinstance(kuzu.Database, partial):
        kuzu.Database = partial(kuzu.Database, **_KUZU_SIZE)
    driver = import_module("graphiti_core.driver.kuzu_driver").KuzuDriver(db=str(file))
    driver._database = "history"  # 0.31.1: `add_episode` reads it, and this driver has none.
    execute = driver.execute_query

    async def executed(cypher: str, /, **parameters: Theirs) -> Theirs:
        """0.31.1 hands questions over with their marks, and Kuzu then looks for a word "bicycle?"."""
        if "QUERY_FTS_INDEX" in cypher and "query" in parameters:
            parameters["query"] = re.sub(r"[^\w\s]", " ", parameters["query"])
        return await execute(cypher, **parameters)

    driver.execute_query = executed
    return driver


async def _make_word_indexes(driver: Theirs) -> None:
    """0.31.1 makes no full-text index in Kuzu, so that its search by words would find nothing and not say so."""
    queries = import_module("graphiti_core.graph_queries").get_fulltext_indices
    provider = import_module("graphiti_core.driver.driver").GraphProvider.KUZU
    there, _, _ = await driver.execute_query("CALL SHOW_INDEXES() RETURN index_name")
    names = {one["index_name"] for one in there}
    for query in queries(provider):
        if not any(f"'{name}'" in query for name in names):
            await driver.execute_query(query)


def _server_driver(server: str, group: str) -> Theirs:
    """The driver of a database server."""
    address = urlsplit(server)
    if address.scheme == "falkor":
        user, password = os.environ.get("FALKORDB_USER"), os.environ.get("FALKORDB_PASSWORD")
        module = import_module("graphiti_core.driver.falkordb_driver")
        where = {"host": address.hostname or "localhost", "port": address.port or 6379}
        return module.FalkorDriver(**where, username=user, password=password, database=group)
    user, password = os.environ.get("NEO4J_USER"), os.environ.get("NEO4J_PASSWORD")
    return import_module("graphiti_core.driver.neo4j_driver").Neo4jDriver(server, user, password)


async def _remove_graph(driver: Theirs, group: str) -> None:
    """Remove a history from a server; in FalkorDB its graph too, which would stay there with its indexes."""
    if driver.provider == import_module("graphiti_core.driver.driver").GraphProvider.FALKORDB:
        if driver._init_task:  # It makes indexes, and with them the graph.
            await driver._init_task
        await driver.client.select_graph(group).delete()
    else:
        await import_module("graphiti_core.utils.maintenance.graph_data_operations").clear_data(driver, [group])
