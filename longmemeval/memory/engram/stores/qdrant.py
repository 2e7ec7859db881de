"""Vectors in Qdrant's in-process engine (Qdrant Edge): one shard per history.

Searches compare with every vector that passes the filter.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import Lock
from typing import Any

from qdrant_edge import (
    Distance,
    EdgeConfig,
    EdgeShard,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    MatchAny,
    Point,
    Query,
    QueryRequest,
    RangeFloat,
    ScrollRequest,
    SearchParams,
    UpdateMode,
    UpdateOperation,
)

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import NEVER, digest, moment_of, number_of
from longmemeval.memory.engram.stores.kinds import Namespace, asking, locked_files
from longmemeval.memory.engram.stores.protocol import NOW, Names, When


class QdrantVectors:
    """One history as one shard. Its points are numbered by the positions of their versions.

    Raises:
        HarnessError: another process has it open.
    """

    def __init__(self, place: Namespace) -> None:
        self._path = place.folder / f"{place.name}.qdrant"
        self._patience_s = place.patience_s
        self._using = Lock()
        self._files: AbstractContextManager[None] | None = None
        self._shard: EdgeShard | None = None
        self._places: dict[str, int] = {}
        self._opened()

    def _opened(self) -> EdgeShard | None:
        """Return the shard; None if there is none yet."""
        if self._files is None:
            self._files = locked_files(self._path, self, self._patience_s)
            if self._path.exists():
                self._shard = EdgeShard.load(str(self._path))
                self._places = {row["version_id"]: place for place, row in enumerate(_payloads(self._shard))}
        return self._shard

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions."""
        points = [
            Point(seq, row.tolist(), _payload(fact, row))
            for seq, (fact, row) in enumerate(zip(facts, vectors, strict=True), start=first)
        ]
        with self._using, asking("Qdrant", Exception):
            shard = self._opened()
            if shard is None:
                self._path.mkdir(parents=True)
                parameters = EdgeVectorParams(size=vectors.shape[1], distance=Distance.Dot)
                # Without a write-ahead log, which would take 64 MB per history: `flush` makes writes durable.
                shard = EdgeShard.create(str(self._path), EdgeConfig(vectors=parameters, wal_enabled=False))
                self._shard = shard
            shard.update(UpdateOperation.upsert_points(points, update_mode=UpdateMode.InsertOnly))
            shard.flush()
            self._places |= {fact.version_id: seq for seq, fact in enumerate(facts, start=first)}

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        with self._using, asking("Qdrant", Exception):
            shard = self._opened()
            if shard is None or not facts:
                return
            for fact in facts:
                expired = {"expired_at": number_of(fact.expired_at)}
                shard.update(UpdateOperation.set_payload([self._places[fact.version_id]], expired))
            shard.flush()

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Return digest and expiry of each version, in the order they were added."""
        with self._using, asking("Qdrant", Exception):
            shard = self._opened()
            rows = _payloads(shard) if shard else []
        return {row["version_id"]: (row["digest"], moment_of(row["expired_at"])) for row in rows}

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """Return the nearest versions that hold and are believed."""
        conditions = _between("valid_at", "invalid_at", when.as_of) if when.as_of else []
        if when.believed_at is None:
            conditions.append(FieldCondition(key="expired_at", range=RangeFloat(gte=NEVER)))
        else:
            conditions += _between("created_at", "expired_at", when.believed_at)
        if ids is not None:
            conditions.append(FieldCondition(key="version_id", match=MatchAny(any=list(ids))))
        request = QueryRequest(
            limit=limit,
            query=Query.Nearest(vector.tolist()),
            filter=Filter(must=conditions),
            params=SearchParams(exact=True),
            with_payload=["version_id"],
        )
        with self._using, asking("Qdrant", Exception):
            shard = self._opened()
            points = shard.query(request) if shard and limit else []
        points.sort(key=lambda point: (-point.score, point.id))
        return [((point.payload or {})["version_id"], point.score) for point in points]

    def remove(self) -> None:
        """Delete the shard."""
        with self._using, asking("Qdrant", Exception):
            self._opened()
            self._let_go()
            shutil.rmtree(self._path, ignore_errors=True)

    def close(self) -> None:
        """Release the folder."""
        with self._using, asking("Qdrant", Exception):
            self._close()

    def let_go_if_idle(self) -> None:
        """See `OwnsFiles`."""
        if self._using.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._using.release()

    def _close(self) -> None:
        self._let_go()
        if self._files is not None:
            self._files.__exit__(None, None, None)
            self._files = None

    def _let_go(self) -> None:
        if self._shard is not None:
            self._shard.close()
        self._shard, self._places = None, {}


def _payloads(shard: EdgeShard) -> list[dict[str, Any]]:
    """Return the payloads of all points, in the order they were added."""
    records, _ = shard.scroll(ScrollRequest(limit=1 << 31, with_payload=True, with_vector=False))
    return [record.payload or {} for record in sorted(records, key=lambda record: record.id)]


def _between(start: str, end: str, moment: datetime) -> list[FieldCondition]:
    at = number_of(moment)
    return [
        FieldCondition(key=start, range=RangeFloat(lte=at)),
        FieldCondition(key=end, range=RangeFloat(gt=at)),
    ]


def _payload(fact: Fact, row: Vector) -> dict[str, str | int]:
    return {
        "version_id": fact.version_id,
        "digest": digest(fact, row),
        "valid_at": number_of(fact.valid_at),
        "invalid_at": number_of(fact.invalid_at),
        "created_at": number_of(fact.created_at),
        "expired_at": number_of(fact.expired_at),
    }
