"""Vectors in LanceDB, in this process: one table per history in the folder of stores.

There is no index, so a search compares with every vector that passes the filter.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import lancedb
import pyarrow
from lancedb.table import Table

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import NEVER, digest, moment_of, number_of
from longmemeval.memory.engram.stores.kinds import Namespace, asking
from longmemeval.memory.engram.stores.protocol import NOW, Names, When

_ERRORS = (RuntimeError, ValueError, OSError)


class LanceDBVectors:
    """One history as one table."""

    def __init__(self, place: Namespace) -> None:
        place.folder.mkdir(parents=True, exist_ok=True)
        self._name = place.name
        with asking("LanceDB", *_ERRORS):
            self._database = lancedb.connect(str(place.folder))

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions."""
        rows: dict[str, Any] = {
            "seq": range(first, first + len(facts)),
            "version_id": [fact.version_id for fact in facts],
            "digest": [digest(fact, row) for fact, row in zip(facts, vectors, strict=True)],
            "valid_at": [number_of(fact.valid_at) for fact in facts],
            "invalid_at": [number_of(fact.invalid_at) for fact in facts],
            "created_at": [number_of(fact.created_at) for fact in facts],
            "expired_at": [number_of(fact.expired_at) for fact in facts],
            "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1]),
        }
        fresh = pyarrow.table(rows)
        with asking("LanceDB", *_ERRORS):
            table = self._table() or self._database.create_table(self._name, fresh, exist_ok=True)
            table.merge_insert("version_id").when_not_matched_insert_all().execute(fresh)

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        table = self._table()
        if table is None or not facts:
            return
        with asking("LanceDB", *_ERRORS):
            for expired_at in dict.fromkeys(fact.expired_at for fact in facts):
                ids = [fact.version_id for fact in facts if fact.expired_at == expired_at]
                table.update(where=f"version_id IN ({_listed(ids)})", values={"expired_at": number_of(expired_at)})

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Return digest and expiry of each version, in the order they were added."""
        table = self._table()
        if table is None:
            return {}
        with asking("LanceDB", *_ERRORS):
            columns = ["seq", "version_id", "digest", "expired_at"]
            rows = table.search().select(columns).limit(table.count_rows()).to_list()
        rows.sort(key=lambda row: row["seq"])
        return {row["version_id"]: (row["digest"], moment_of(row["expired_at"])) for row in rows}

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """Return the nearest versions that hold and are believed."""
        table = self._table()
        if table is None or not limit or (ids is not None and not ids):
            return []
        conditions = [_between("valid_at", "invalid_at", when.as_of)] if when.as_of else []
        if when.believed_at is None:
            conditions.append(f"expired_at = {NEVER}")
        else:
            conditions.append(_between("created_at", "expired_at", when.believed_at))
        if ids is not None:
            conditions.append(f"version_id IN ({_listed(ids)})")
        with asking("LanceDB", *_ERRORS):
            query = table.search(vector).distance_type("dot").where(" AND ".join(conditions), prefilter=True)
            rows = query.select(["seq", "version_id", "_distance"]).limit(limit).to_list()
        rows.sort(key=lambda row: (row["_distance"], row["seq"]))
        return [(row["version_id"], 1.0 - row["_distance"]) for row in rows]

    def remove(self) -> None:
        """Drop the table, in all its versions."""
        with asking("LanceDB", *_ERRORS):
            self._database.drop_table(self._name, ignore_missing=True)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _table(self) -> Table | None:
        """Return the current table; None if there is none yet."""
        with asking("LanceDB", *_ERRORS):
            try:
                return self._database.open_table(self._name)
            except ValueError as error:
                if "not found" not in str(error):
                    raise
                return None


def _between(start: str, end: str, moment: datetime) -> str:
    return f"{start} <= {number_of(moment)} AND {end} > {number_of(moment)}"


def _listed(ids: Collection[str]) -> str:
    return ", ".join("'" + version_id.replace("'", "''") + "'" for version_id in ids)
