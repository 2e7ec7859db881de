"""Shared fixtures: the real data where it is at hand."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/cli/test_snapshots.py --write-snapshots` writes what the terminal shows now."""
    parser.addoption("--write-snapshots", action="store_true", help="write tests/cli/snapshots again")


def real_file(name: str) -> Path:
    """The real benchmark file `name`; skips the test without it unless REQUIRE_REAL_DATA=1."""
    path = SHARED_DATA / name
    if not path.exists():
        message = f"real benchmark file {name} is not beside the project (licences forbid shipping it)"
        if os.environ.get("REQUIRE_REAL_DATA") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def real_longmemeval() -> Path:
    return real_file("longmemeval_e47becba.json")
