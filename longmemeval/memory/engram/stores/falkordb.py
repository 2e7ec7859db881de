"""Facts in FalkorDB, in the schema of bi-temporal memories on property graphs: `vt_`, `tt_`, REPLACES, MENTIONS.

Nodes are `Entity`, `Fact` (one per version), `Session` and `Turn`; docs/engram.md maps them to the engine's records.
Moments are texts that sort chronologically, because FalkorDB's own dates are limited to seconds.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from falkordb import FalkorDB
from redis.exceptions import RedisError, ResponseError

from longmemeval.errors import HarnessError
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import decoded, encoded, in_batches, plain, text_of
from longmemeval.memory.engram.stores.kinds import Namespace, address, asking, unreachable
from longmemeval.memory.engram.stores.protocol import NOW, Names, When, breadth_first

VARIABLE = "LONGMEMEVAL_FALKORDB_URL"
_GREETING_S, _QUERY_S = 10.0, 600.0
"""Timeouts for connecting and for a query."""

_ADD = (
    "UNWIND $rows AS row MERGE (subject:Entity {name: row.subject}) ON CREATE SET subject.tt_start = row.tt_start "
    "MERGE (object:Entity {name: row.object}) ON CREATE SET object.tt_start = row.tt_start "
    "MERGE (fact:Fact {id: row.id}) ON CREATE SET fact = row.properties "
    "MERGE (subject)-[:SUBJECT_OF]->(fact) MERGE (fact)-[:OBJECT]->(object)",
    "UNWIND $rows AS row MATCH (fact:Fact {id: row.id}), (old:Fact {id: row.supersedes}) "
    "MERGE (fact)-[:REPLACES]->(old)",
    "UNWIND $rows AS row UNWIND row.turns AS said MERGE (session:Session {id: said.session}) "
    "MERGE (turn:Turn {id: said.id}) SET turn.index = said.index MERGE (session)-[:HAS_TURN]->(turn) "
    "WITH row, turn MATCH (subject:Entity)-[:SUBJECT_OF]->(fact:Fact {id: row.id})-[:OBJECT]->(object:Entity) "
    "MERGE (fact)-[:SAID_IN]->(turn) MERGE (turn)-[:MENTIONS]->(subject) MERGE (turn)-[:MENTIONS]->(object)",
)
_UNCHAIN = "UNWIND $sessions AS id MATCH (:Session {id: id})-[:HAS_TURN]->(:Turn)-[next:NEXT]->(:Turn) DELETE next"
_CHAIN = (
    "UNWIND $sessions AS id MATCH (:Session {id: id})-[:HAS_TURN]->(turn:Turn) WITH id, turn ORDER BY turn.index "
    "WITH id, collect(turn) AS turns UNWIND range(0, size(turns) - 2) AS place "
    "WITH turns[place] AS earlier, turns[place + 1] AS later MERGE (earlier)-[:NEXT]->(later)"
)
_EXPIRE = "UNWIND $rows AS row MATCH (fact:Fact {id: row.id}) SET fact.tt_end = row.tt_end, fact.record = row.record"
_VISIBLE = (
    "($as_of IS NULL OR (fact.vt_start <= $as_of AND (fact.vt_end IS NULL OR fact.vt_end > $as_of))) AND "
    "(($believed_at IS NULL AND fact.tt_end IS NULL) OR "
    "(fact.tt_start <= $believed_at AND (fact.tt_end IS NULL OR fact.tt_end > $believed_at)))"
)
_OF_SLOT = (
    "MATCH (fact:Fact) WHERE ($subjects IS NULL OR fact.subject IN $subjects) AND "
    "($predicate IS NULL OR fact.predicate = $predicate OR fact.predicate STARTS WITH $kind)"
)
_RECORDS = " RETURN fact.record ORDER BY fact.seq"
_EDGES = (
    "MATCH (near:Entity)-[:SUBJECT_OF|OBJECT]-(fact:Fact)-[:SUBJECT_OF|OBJECT]-(far:Entity) "
    f"WHERE near.name IN $names AND {_VISIBLE} RETURN DISTINCT near.name, far.name"
)


@cache
def _client(url: str) -> FalkorDB:
    try:
        FalkorDB.from_url(url, socket_timeout=_GREETING_S, socket_connect_timeout=_GREETING_S).list_graphs()
        # The client's own default gives up on a large batch after a few seconds.
        return FalkorDB.from_url(url, socket_timeout=_QUERY_S, socket_connect_timeout=_GREETING_S)
    except ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise unreachable("FalkorDB", VARIABLE, error) from error
        raise HarnessError(
            "The server answers, but it is a Redis without the FalkorDB module",
            where=VARIABLE,
            fix="Start a FalkorDB (`docker run -p 6379:6379 falkordb/falkordb`), or load the module into this one, and "
            f"give the address in {VARIABLE}",
        ) from error
    except (RedisError, ValueError, OSError) as error:
        raise unreachable("FalkorDB", VARIABLE, error) from error


class FalkorDBFacts:
    """One history as one graph.

    Raises:
        HarnessError: there is no server at the address.
    """

    def __init__(self, place: Namespace) -> None:
        self._graph = _client(address(VARIABLE, "falkor://localhost:6379")).select_graph(place.name)

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions, their entities, turns and sessions."""
        if not facts:
            return
        with asking("FalkorDB", RedisError):
            if not first:
                self._make_indexes()
            for rows in in_batches([_row(fact, seq) for seq, fact in enumerate(facts, start=first)]):
                for statement in _ADD:
                    self._graph.query(statement, {"rows": rows})
            sessions = sorted({plain(turn.rpartition(":")[0]) for fact in facts for turn in fact.episode_ids})
            for statement in (_UNCHAIN, _CHAIN):
                self._graph.query(statement, {"sessions": sessions})

    def _make_indexes(self) -> None:
        for label, key in (("Fact", "id"), ("Entity", "name"), ("Turn", "id"), ("Session", "id")):
            try:
                self._graph.create_node_range_index(label, key)
            except ResponseError as error:
                if "already indexed" not in str(error):
                    raise

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        rows = [
            {"id": fact.version_id, "tt_end": text_of(fact.expired_at), "record": encoded(fact)}
            for fact in facts
            if fact.expired_at
        ]
        with asking("FalkorDB", RedisError):
            for batch in in_batches(rows):
                self._graph.query(_EXPIRE, {"rows": batch})

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """Return all versions in the order they were added."""
        return [decoded(row[0]) for row in self._read(_OF_SLOT + _RECORDS, _slot(subjects, predicate))]

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """Return the versions that hold and are believed, in the order they were added."""
        parameters = _slot(subjects, predicate) | _moments(when)
        return [decoded(row[0]) for row in self._read(f"{_OF_SLOT} AND {_VISIBLE}{_RECORDS}", parameters)]

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Return the names within `hops` of one of `names`, with distances."""
        moments = _moments(when)
        return breadth_first(
            map(plain, names),
            hops,
            lambda frontier: ((row[0], row[1]) for row in self._read(_EDGES, {"names": frontier, **moments})),
        )

    def remove(self) -> None:
        """Delete the graph."""
        with asking("FalkorDB", RedisError):
            try:
                self._graph.delete()
            except ResponseError as error:
                if "empty key" not in str(error):
                    raise

    def close(self) -> None:
        """Do nothing: the connection is shared by all histories."""

    def _read(self, statement: str, parameters: dict[str, Any]) -> list[list[Any]]:
        with asking("FalkorDB", RedisError):
            try:
                rows: list[list[Any]] = self._graph.ro_query(statement, parameters).result_set
            except ResponseError as error:
                if "empty key" not in str(error):
                    raise
                return []
        return rows


def _slot(subjects: Names, predicate: str | None) -> dict[str, Any]:
    names = None if subjects is None else [plain(name) for name in subjects]
    return {"subjects": names, "predicate": predicate, "kind": f"{predicate}:"}


def _moments(when: When) -> dict[str, Any]:
    return {
        "as_of": text_of(when.as_of) if when.as_of else None,
        "believed_at": text_of(when.believed_at) if when.believed_at else None,
    }


def _row(fact: Fact, seq: int) -> dict[str, Any]:
    properties = {
        "id": fact.version_id,
        "seq": seq,
        "fact_id": fact.fact_id,
        "subject": plain(fact.subject),
        "predicate": plain(fact.predicate),
        "object": plain(fact.object),
        "fact": plain(fact.text),
        "vt_start": text_of(fact.valid_at),
        "vt_end": text_of(fact.invalid_at) if fact.invalid_at else None,
        "tt_start": text_of(fact.created_at),
        "tt_end": text_of(fact.expired_at) if fact.expired_at else None,
        "disputed": fact.disputed,
        "salience": fact.salience,
        "record": encoded(fact),
    }
    turns = [(turn, turn.rpartition(":")) for turn in map(plain, fact.episode_ids)]
    return {
        "id": fact.version_id,
        "subject": properties["subject"],
        "object": properties["object"],
        "tt_start": properties["tt_start"],
        "supersedes": fact.supersedes or "",
        "properties": {name: value for name, value in properties.items() if value is not None},
        "turns": [
            {"id": turn, "session": session, "index": int(number) if number.isdecimal() else 0}
            for turn, (session, _, number) in turns
        ],
    }
