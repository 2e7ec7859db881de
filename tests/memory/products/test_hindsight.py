"""Hindsight itself with its embedded PostgreSQL, in an environment of its own, against a local endpoint."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import gettempdir
from time import monotonic, sleep

import pytest

from tests.memory.products.products import Tried, endpoint, from_prepare_to_a_table

pytestmark = [pytest.mark.products, pytest.mark.timeout(900)]


def servers() -> set[Path]:
    return set(Path(gettempdir()).glob("longmemeval-postgres-*"))


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path]) -> None:
    before = servers()
    with endpoint() as server:
        tried = Tried("hindsight", with_product("hindsight"), server)
        table = from_prepare_to_a_table(tried)
        asked = tried.sent()
    assert "hindsight-api-slim 1.1.0" in table
    assert "recall is scored by session" in table
    assert "batches failed" not in table
    for day in ("2023-05-20T02:21", "2023-05-21T10:00", "2023-05-22T09:15"):
        assert f"({day}:00+00:00)" in asked
    assert date.today().isoformat() not in asked
    for answer in tried.answers("product"):
        assert answer["provenance"] == "session"
        assert any(one.startswith("answer_of") for one in answer["recall_sessions"])
    deadline = monotonic() + 60
    while servers() - before and monotonic() < deadline:  # They stop when the pipe to them closes, after a kill too.
        sleep(0.1)
    assert servers() <= before


@pytest.mark.parametrize(("per", "provenance"), [("session", "missing"), ("turn", "works")])
def test_both_configurations_pass_the_check(per: str, provenance: str, with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        found = Tried("hindsight", with_product("hindsight"), server, f"per={per}").checked()
    assert found.pop("message ids") == provenance
    assert found.pop("what it holds") == "missing"
    assert set(found.values()) == {"works"}


def test_the_budget_is_the_products_own(with_product: Callable[[str], Path]) -> None:
    """Twenty tokens are one fact or two, not ten."""
    with endpoint() as server:
        tried = Tried("hindsight", with_product("hindsight"), server, "per=turn", "budget=20")
        tried.words += ["--limit", "1"]
        tried.call("prepare", "--dataset", "sample")
        tried.call("run", "--dataset", "sample", "--model", "offline/extractive", "--run-id", "r")
        (answer,) = tried.answers("r")
    assert 1 <= len(answer["recall_ids"]) <= 2
