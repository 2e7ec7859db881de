"""Chroma itself, in an environment of its own, against a local endpoint for vectors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.memory.products.products import Tried, endpoint, from_prepare_to_a_table, planted
from tests.support import write_dataset

pytestmark = pytest.mark.products


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("chroma", with_product("chroma"), server, chats=False)
        table = from_prepare_to_a_table(tried)
        assert server.chat_requests == []
        texts = [text for one in server.requests for text in one.body["input"]]
    assert "chromadb 1.5.9" in table
    assert "recall is scored by session" not in table
    assert "batches failed" not in table
    for number, answer in enumerate(tried.answers("product")):
        assert answer["recall_ids"]
        said = f"I painted my bicycle green today, coat {number}"
        assert texts.count(said) in (1, 2)  # Once more if it was killed there.
    assert texts.count("What colour is my bicycle?") == 3


@pytest.mark.parametrize("space", ["cosine", "l2"])
def test_everything_works(space: str, with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        found = Tried("chroma", with_product("chroma"), server, f"space={space}", chats=False).checked()
    assert set(found.values()) == {"works"}


def test_vectors_that_cannot_be_had_are_a_failed_batch(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("chroma", with_product("chroma"), server, chats=False)
        write_dataset(tried.folder / "d.json", planted(0))
        server.embedding_faults.append(500)
        told = " ".join(tried.call("prepare", "--dataset", "d.json").stderr.split())
    assert "1 of 3 batches failed" in told
    assert "HTTP Error 500" in told


def test_a_value_it_does_not_know_is_named(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("chroma", with_product("chroma"), server, "space=round", chats=False)
        write_dataset(tried.folder / "d.json", planted(0))
        told = " ".join(tried.call("prepare", "--dataset", "d.json", code=1).stderr.split())
    assert "space is cosine, l2 or ip, not round" in told
