"""Databases for the tests of stores, begun once for each test worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.engram.databases import Begin, falkordb_server, needed, postgres_server


@pytest.fixture(scope="session")
def falkordb() -> Iterator[Path]:
    yield from falkordb_server()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    yield from postgres_server()


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path) -> Begin:
    """Begins what a store needs, or skips the test."""
    monkeypatch.setenv("LONGMEMEVAL_STORES_DIR", str(tmp_path / "memory-stores"))

    def begin(store: str) -> None:
        needed(store)
        if store == "falkordb":
            monkeypatch.setenv("LONGMEMEVAL_FALKORDB_URL", f"unix://{request.getfixturevalue(store)}/socket")
        if store == "postgres":
            url = f"postgresql://postgres@/postgres?host={request.getfixturevalue(store)}"
            monkeypatch.setenv("LONGMEMEVAL_POSTGRES_URL", url)

    return begin
