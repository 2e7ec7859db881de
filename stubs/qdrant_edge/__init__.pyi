from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

class Distance(Enum):
    Dot = ...

class UpdateMode(Enum):
    InsertOnly = ...

class EdgeVectorParams:
    def __init__(self, size: int, distance: Distance) -> None: ...

class EdgeConfig:
    def __init__(self, vectors: EdgeVectorParams, wal_enabled: bool | None = ...) -> None: ...

class Point:
    def __init__(self, id: int, vector: list[float], payload: Mapping[str, object] | None = ...) -> None: ...

class UpdateOperation:
    @staticmethod
    def upsert_points(points: list[Point], update_mode: UpdateMode | None = ...) -> UpdateOperation: ...
    @staticmethod
    def set_payload(points: list[int], payload: Mapping[str, object]) -> UpdateOperation: ...

class RangeFloat:
    def __init__(self, *, lte: float | None = ..., gt: float | None = ..., gte: float | None = ...) -> None: ...

class MatchAny:
    def __init__(self, any: list[str]) -> None: ...

class FieldCondition:
    def __init__(self, *, key: str, range: RangeFloat | None = ..., match: MatchAny | None = ...) -> None: ...

class Filter:
    def __init__(self, *, must: Sequence[FieldCondition]) -> None: ...

class Query:
    @staticmethod
    def Nearest(query: list[float]) -> Query: ...

class SearchParams:
    def __init__(self, *, exact: bool = ...) -> None: ...

class QueryRequest:
    def __init__(
        self,
        *,
        limit: int,
        query: Query,
        filter: Filter,
        params: SearchParams,
        with_payload: list[str],
    ) -> None: ...

class ScrollRequest:
    def __init__(self, *, limit: int, with_payload: bool, with_vector: bool) -> None: ...

class Record:
    id: int
    payload: dict[str, Any] | None

class ScoredPoint:
    id: int
    score: float
    payload: dict[str, Any] | None

class EdgeShard:
    @staticmethod
    def load(path: str) -> EdgeShard: ...
    @staticmethod
    def create(path: str, config: EdgeConfig) -> EdgeShard: ...
    def update(self, operation: UpdateOperation) -> None: ...
    def query(self, query: QueryRequest) -> list[ScoredPoint]: ...
    def scroll(self, scroll: ScrollRequest) -> tuple[list[Record], object]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
