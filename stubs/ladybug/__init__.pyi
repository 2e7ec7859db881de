from typing import Any

class Database:
    def __init__(
        self,
        database_path: str,
        *,
        buffer_pool_size: int = ...,
        max_num_threads: int = ...,
        max_db_size: int | None = ...,
    ) -> None: ...
    def close(self) -> None: ...

class QueryResult:
    def get_all(self) -> list[list[Any]]: ...

class Connection:
    database: Database
    def __init__(self, database: Database) -> None: ...
    def execute(self, query: str, parameters: dict[str, Any] = ...) -> QueryResult: ...
    def close(self) -> None: ...
