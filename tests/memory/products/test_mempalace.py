"""MemPalace itself, over MCP, in an environment of its own, against a local endpoint for vectors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.memory.products.products import Tried, endpoint, from_prepare_to_a_table, planted
from tests.support import write_dataset

pytestmark = pytest.mark.products


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("mempalace", with_product("mempalace"), server, chats=False)
        table = from_prepare_to_a_table(tried)
        assert server.chat_requests == []
    assert "mempalace 3.11.0" in table
    assert "session dates are passed as text only" in table
    assert "batches failed" not in table
    answers = tried.answers("product")
    assert {answer["provenance"] for answer in answers} == {"message"}
    recalled = {one for answer in answers for one in answer["recall_ids"]}
    assert {f"answer_of_{number}:0" for number in range(3)} <= recalled
    prompts = (tried.folder / "results" / "product" / "prompts.jsonl").read_text()
    assert "2023-05-21T10:00:00 user: I painted my bicycle green today, coat 2" in prompts


def test_what_works(with_product: Callable[[str], Path]) -> None:
    """Its own dates are those of today, and it tells no score of what it ranks by."""
    with endpoint() as server:
        found = Tried("mempalace", with_product("mempalace"), server, chats=False).checked()
    missing = {what for what, state in found.items() if state != "works"}
    assert missing == {"dates", "order"}
    assert {found[what] for what in missing} == {"missing"}


def test_vectors_that_cannot_be_had_are_a_failed_batch(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("mempalace", with_product("mempalace"), server, chats=False)
        write_dataset(tried.folder / "d.json", planted(0))
        server.plan = lambda: 400
        told = " ".join(tried.call("prepare", "--dataset", "d.json", code=1).stderr.split())
    assert "The memory could add nothing" in told
    assert "mempalace_add_drawer failed" in told
