"""Facts in PostgreSQL, and their vectors in pgvector: two tables per history in the schema `longmemeval`.

Searches compare with every vector that passes the filter: an approximate index would filter only the nearest ones and
miss others that pass.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import psycopg
from psycopg.errors import UndefinedTable

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.errors import HarnessError
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import decoded, digest, encoded, plain
from longmemeval.memory.engram.stores.kinds import Namespace, address, asking, unreachable
from longmemeval.memory.engram.stores.protocol import NOW, Names, When, breadth_first

VARIABLE = "LONGMEMEVAL_POSTGRES_URL"

_STAMPS = "valid_at timestamp NOT NULL, invalid_at timestamp, created_at timestamp NOT NULL, expired_at timestamp"
_FACTS = (
    "seq bigint PRIMARY KEY, version_id text UNIQUE NOT NULL, fact_id text, subject text, predicate text, object text, "
    f"text text, episode_ids text[], supersedes text, disputed boolean, {_STAMPS}, record text NOT NULL"
)
_VECTORS = f"seq bigint PRIMARY KEY, version_id text UNIQUE NOT NULL, {_STAMPS}, digest text NOT NULL, vector vector"
_VISIBLE = (
    "(%(as_of)s::timestamp IS NULL OR "
    "(valid_at <= %(as_of)s::timestamp AND (invalid_at IS NULL OR invalid_at > %(as_of)s::timestamp))) AND "
    "CASE WHEN %(believed_at)s::timestamp IS NULL THEN expired_at IS NULL "
    "ELSE created_at <= %(believed_at)s::timestamp AND "
    "(expired_at IS NULL OR expired_at > %(believed_at)s::timestamp) END"
)
_OF_SLOT = (
    "(%(subjects)s::text[] IS NULL OR subject = ANY(%(subjects)s::text[])) AND (%(predicate)s::text IS NULL OR "
    "predicate = %(predicate)s::text OR split_part(predicate, ':', 1) = %(predicate)s::text)"
)


def _server() -> str:
    """Return the server's address; if none is given, libpq's own variables apply."""
    url = address(VARIABLE, "")
    _greet(url)
    return url


@cache
def _greet(url: str) -> None:
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            _create_missing(connection, "SELECT to_regnamespace('longmemeval')", "CREATE SCHEMA longmemeval")
    except psycopg.Error as error:
        raise unreachable("PostgreSQL", VARIABLE, error) from error


def _create_missing(connection: psycopg.Connection, query: str, statement: str) -> None:
    """Execute `statement` unless `query` finds something, under a lock: concurrent creation fails in the catalogue."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('longmemeval'))")
    if not any(row[0] for row in connection.execute(query).fetchall()):
        connection.execute(statement)


class _Table:
    """One table of one history."""

    def __init__(self, place: Namespace, kind: str, columns: str) -> None:
        self._url = _server()
        self._name = f"longmemeval.{place.name}_{kind}"
        self._columns = columns

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows and leave existing ones as they are; the table is created if it is missing."""
        with asking("PostgreSQL", psycopg.Error), psycopg.connect(self._url) as connection:
            # Two processes that create a table at the same time would collide in the catalogue.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%(name)s))", {"name": self._name})
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._name} ({self._columns})")
            connection.execute(f"CREATE TEMP TABLE fresh (LIKE {self._name}) ON COMMIT DROP")
            with connection.cursor() as cursor, cursor.copy("COPY fresh FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            connection.execute(f"INSERT INTO {self._name} SELECT * FROM fresh ON CONFLICT DO NOTHING")

    def change(self, assignments: str, rows: Sequence[dict[str, Any]]) -> None:
        """Set columns of versions."""
        with asking("PostgreSQL", psycopg.Error), psycopg.connect(self._url) as connection:
            statement = f"UPDATE {self._name} SET {assignments} WHERE version_id = %(version_id)s"
            with connection.cursor() as cursor:
                cursor.executemany(statement, rows)

    def read(self, columns: str, rest: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT; none if there is no table."""
        with asking("PostgreSQL", psycopg.Error):
            try:
                return _reading(self._url).execute(f"SELECT {columns} FROM {self._name} {rest}", parameters).fetchall()
            except UndefinedTable:
                return []

    def remove(self) -> None:
        """Drop the table."""
        with asking("PostgreSQL", psycopg.Error), psycopg.connect(self._url) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self._name}")


_connections: dict[str, psycopg.Connection] = {}


def _reading(url: str) -> psycopg.Connection:
    """Return this process's connection for queries, reopened if it was lost."""
    held = _connections.get(url)
    if held is None or held.closed:
        held = _connections[url] = psycopg.connect(url, autocommit=True)
    return held


class PostgresFacts:
    """One history as one table.

    Raises:
        HarnessError: there is no server at the address.
    """

    def __init__(self, place: Namespace) -> None:
        self._table = _Table(place, "facts", _FACTS)

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions."""
        self._table.add(_row(fact, seq) for seq, fact in enumerate(facts, start=first))

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        rows = [
            {"version_id": fact.version_id, "expired_at": fact.expired_at, "record": encoded(fact)} for fact in facts
        ]
        if rows:
            self._table.change("expired_at = %(expired_at)s, record = %(record)s", rows)

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """Return all versions in the order they were added."""
        found = self._table.read("record", f"WHERE {_OF_SLOT} ORDER BY seq", **_slot(subjects, predicate))
        return [decoded(row[0]) for row in found]

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """Return the versions that hold and are believed, in the order they were added."""
        parameters = _slot(subjects, predicate) | when._asdict()
        found = self._table.read("record", f"WHERE {_OF_SLOT} AND {_VISIBLE} ORDER BY seq", **parameters)
        return [decoded(row[0]) for row in found]

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Return the names within `hops` of one of `names`, with distances."""
        touching = f"WHERE (subject = ANY(%(names)s) OR object = ANY(%(names)s)) AND {_VISIBLE}"

        def edges(frontier: list[str]) -> Iterable[tuple[str, str]]:
            parameters = {"names": frontier, **when._asdict()}
            return ((row[0], row[1]) for row in self._table.read("DISTINCT subject, object", touching, **parameters))

        return breadth_first(map(plain, names), hops, edges)

    def remove(self) -> None:
        """Drop the table."""
        self._table.remove()

    def close(self) -> None:
        """Do nothing: the connection is shared by all histories."""


class PostgresVectors:
    """The vectors of one history as one table.

    Raises:
        HarnessError: there is no server at the address, or it has no pgvector.
    """

    def __init__(self, place: Namespace) -> None:
        self._table = _Table(place, "vectors", _VECTORS)
        try:
            with psycopg.connect(_server()) as connection:
                query = "SELECT oid FROM pg_extension WHERE extname = 'vector'"
                _create_missing(connection, query, "CREATE EXTENSION vector")
        except psycopg.Error as error:
            raise HarnessError(
                f"PostgreSQL has no pgvector here: {' '.join(str(error).split())}",
                where=VARIABLE,
                fix="Install pgvector on the server, and let its administrator run CREATE EXTENSION vector",
            ) from error

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions."""
        self._table.add(
            (seq, fact.version_id, *_stamps(fact), digest(fact, row), _literal(row))
            for seq, (fact, row) in enumerate(zip(facts, vectors, strict=True), start=first)
        )

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        if facts:
            rows = [{"version_id": fact.version_id, "expired_at": fact.expired_at} for fact in facts]
            self._table.change("expired_at = %(expired_at)s", rows)

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Return digest and expiry of each version, in the order they were added."""
        return {row[0]: (row[1], row[2]) for row in self._table.read("version_id, digest, expired_at", "ORDER BY seq")}

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """Return the nearest versions that hold and are believed."""
        found = self._table.read(
            "version_id, -(vector <#> %(vector)s::vector)",
            f"WHERE {_VISIBLE} AND (%(ids)s::text[] IS NULL OR version_id = ANY(%(ids)s::text[])) "
            "ORDER BY vector <#> %(vector)s::vector, seq LIMIT %(limit)s",
            vector=_literal(vector),
            limit=limit,
            **when._asdict(),
            ids=None if ids is None else list(ids),
        )
        return [(row[0], float(row[1])) for row in found]

    def remove(self) -> None:
        """Drop the table."""
        self._table.remove()

    def close(self) -> None:
        """Do nothing: the connection is shared by all histories."""


def _slot(subjects: Names, predicate: str | None) -> dict[str, Any]:
    return {"subjects": None if subjects is None else [plain(name) for name in subjects], "predicate": predicate}


def _stamps(fact: Fact) -> tuple[datetime | None, ...]:
    return fact.valid_at, fact.invalid_at, fact.created_at, fact.expired_at


def _row(fact: Fact, seq: int) -> tuple[Any, ...]:
    texts = [plain(text) for text in (fact.subject, fact.predicate, fact.object, fact.text)]
    episodes = [plain(episode_id) for episode_id in fact.episode_ids]
    rest = (fact.supersedes, fact.disputed, *_stamps(fact), encoded(fact))
    return seq, fact.version_id, fact.fact_id, *texts, episodes, *rest


def _literal(vector: Vector) -> str:
    """Return a vector as pgvector reads it; nine digits keep every bit of a 32-bit float."""
    return "[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]"
