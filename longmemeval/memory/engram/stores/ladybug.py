"""Facts in Ladybug, the successor of Kuzu: an in-process graph database, with one file per history.

Entities are nodes, and each version of a fact is an edge from its subject to its object. Ladybug lets two processes
write to the same file, which corrupts it: a lock next to the file prevents that.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from ladybug import Connection, Database

from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import FOREVER, decoded, encoded, in_batches, plain, text_of
from longmemeval.memory.engram.stores.kinds import Namespace, asking, locked_files
from longmemeval.memory.engram.stores.protocol import NOW, Names, When, breadth_first

_TABLES = (
    "CREATE NODE TABLE IF NOT EXISTS Entity(name STRING PRIMARY KEY)",
    "CREATE REL TABLE IF NOT EXISTS Fact(FROM Entity TO Entity, version_id STRING, seq INT64, predicate STRING, "
    "text STRING, valid_at STRING, invalid_at STRING, created_at STRING, expired_at STRING, record STRING)",
)
_COLUMNS = ("version_id", "seq", "predicate", "text", "valid_at", "invalid_at", "created_at", "expired_at", "record")
_ADD = (
    "UNWIND $rows AS row MATCH (subject:Entity {name: row.subject}), (object:Entity {name: row.object}) "
    f"CREATE (subject)-[:Fact {{{', '.join(f'{name}: row.{name}' for name in _COLUMNS)}}}]->(object)"
)
_EXISTING = "MATCH ()-[fact:Fact]->() WHERE fact.version_id IN $ids RETURN fact.version_id"
_EXPIRE = (
    "UNWIND $rows AS row MATCH (:Entity {name: row.subject})-[fact:Fact]->(:Entity {name: row.object}) "
    "WHERE fact.version_id = row.version_id SET fact.expired_at = row.expired_at, fact.record = row.record"
)
_OF_SLOT = (
    "MATCH (subject:Entity)-[fact:Fact]->(:Entity) WHERE ($everybody OR subject.name IN $subjects) AND "
    "($predicate = '' OR fact.predicate = $predicate OR fact.predicate STARTS WITH $kind)"
)
_VISIBLE = (
    "($whenever OR (fact.valid_at <= $as_of AND fact.invalid_at > $as_of)) AND "
    "(($now AND fact.expired_at = $forever) OR "
    "(NOT $now AND fact.created_at <= $believed_at AND fact.expired_at > $believed_at))"
)
_RECORDS = " RETURN fact.record ORDER BY fact.seq"
_EDGES = (
    "MATCH (near:Entity)-[fact:Fact]-(far:Entity) "
    f"WHERE near.name IN $names AND {_VISIBLE} RETURN DISTINCT near.name, far.name"
)


class LadybugFacts:
    """One history as one database.

    Raises:
        HarnessError: another process has it open.
    """

    def __init__(self, place: Namespace) -> None:
        self._path = place.folder / f"{place.name}.lbug"
        self._patience_s = place.patience_s
        self._using = Lock()
        self._connection: Connection | None = None
        self._files: AbstractContextManager[None] | None = None
        self._lock()

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions and the names they connect."""
        ids = [fact.version_id for fact in facts]
        existing = {row[0] for row in self._ask(_EXISTING, ids=ids)}
        rows = [_row(fact, seq) for seq, fact in enumerate(facts, start=first) if fact.version_id not in existing]
        if rows:
            names = sorted({row[end] for row in rows for end in ("subject", "object")})
            self._ask("UNWIND $names AS name MERGE (:Entity {name: name})", names=names)
        for batch in in_batches(rows):
            self._ask(_ADD, rows=batch)

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        for batch in in_batches([_row(fact, 0) for fact in facts]):
            self._ask(_EXPIRE, rows=batch)

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """Return all versions in the order they were added."""
        return [decoded(row[0]) for row in self._ask(_OF_SLOT + _RECORDS, **_slot(subjects, predicate))]

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """Return the versions that hold and are believed, in the order they were added."""
        parameters = _slot(subjects, predicate) | _moments(when)
        return [decoded(row[0]) for row in self._ask(f"{_OF_SLOT} AND {_VISIBLE}{_RECORDS}", **parameters)]

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Return the names within `hops` of one of `names`, with distances."""
        moments = _moments(when)
        return breadth_first(
            map(plain, names),
            hops,
            lambda frontier: ((row[0], row[1]) for row in self._ask(_EDGES, names=frontier, **moments)),
        )

    def remove(self) -> None:
        """Delete the file."""
        with self._using:
            self._lock()
            self._disconnect()
            for file in self._path.parent.glob(f"{self._path.name}*"):
                if file.suffix != ".lock":
                    file.unlink()

    def close(self) -> None:
        """Release the file."""
        with self._using:
            self._let_go()

    def let_go_if_idle(self) -> None:
        """See `OwnsFiles`."""
        if self._using.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._using.release()

    def _let_go(self) -> None:
        self._disconnect()
        if self._files is not None:
            self._files.__exit__(None, None, None)
            self._files = None

    def _lock(self) -> None:
        if self._files is None:
            self._files = locked_files(self._path, self, self._patience_s)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection.database.close()
            self._connection = None

    def _ask(self, statement: str, **parameters: object) -> list[list[Any]]:
        with self._using, asking("Ladybug", RuntimeError):
            self._lock()
            if self._connection is None:
                # By default it would reserve 80 percent of the memory, and eight terabytes of address space.
                database = Database(str(self._path), buffer_pool_size=64 << 20, max_db_size=1 << 32, max_num_threads=2)
                self._connection = Connection(database)
                for table in _TABLES:
                    self._connection.execute(table)
            rows: list[list[Any]] = self._connection.execute(statement, parameters).get_all()
        return rows


def _slot(subjects: Names, predicate: str | None) -> dict[str, Any]:
    names = [plain(name) for name in subjects or ("",)]
    kinds = {"predicate": predicate or "", "kind": f"{predicate}:"}
    return {"everybody": subjects is None, "subjects": names, **kinds}


def _moments(when: When) -> dict[str, Any]:
    return {
        "whenever": when.as_of is None,
        "as_of": text_of(when.as_of) if when.as_of else "",
        "now": when.believed_at is None,
        "believed_at": text_of(when.believed_at) if when.believed_at else "",
        "forever": FOREVER,
    }


def _row(fact: Fact, seq: int) -> dict[str, Any]:
    return {
        "subject": plain(fact.subject),
        "object": plain(fact.object),
        "version_id": fact.version_id,
        "seq": seq,
        "predicate": plain(fact.predicate),
        "text": plain(fact.text),
        "valid_at": text_of(fact.valid_at),
        "invalid_at": text_of(fact.invalid_at) if fact.invalid_at else FOREVER,
        "created_at": text_of(fact.created_at),
        "expired_at": text_of(fact.expired_at) if fact.expired_at else FOREVER,
        "record": encoded(fact),
    }
