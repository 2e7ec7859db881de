"""What tests of model calls share."""

import pytest

from tests.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that jumps, for this test."""
    return Clock(monkeypatch)
