"""Graphiti itself with Kuzu and FalkorDB, in an environment of its own, against a local endpoint."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.memory.engram.databases import falkordb_server, needed
from tests.memory.products.products import Tried, endpoint, from_prepare_to_a_table, planted
from tests.server import nobody
from tests.support import json_lines, longmemeval, write_dataset

pytestmark = pytest.mark.products


@contextmanager
def falkordb() -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """A server's address as the adapter takes it, and what lists its graphs."""
    needed("falkordb")
    from falkordb import FalkorDB

    port = urlsplit(nobody()).port or 0
    server = contextmanager(falkordb_server)(port)
    with server:
        yield f"falkor://127.0.0.1:{port}", FalkorDB.from_url(f"redis://127.0.0.1:{port}").list_graphs


def assert_each_recalls_its_own(answers: list[dict[str, Any]], count: int) -> None:
    """Each answer of the offline model quotes the fact of its own history."""
    said = {one["question_id"]: one["hypothesis"] for one in answers}
    assert len(said) == count
    for number in range(count):
        assert f"coat {number}" in said[f"gpt4_planted{number}_abs"]


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with endpoint() as server:
        tried = Tried("graphiti", with_product("graphiti"), server)
        table = from_prepare_to_a_table(tried)
        asked = tried.sent()
    assert "graphiti-core 0.31.1" in table
    assert "recall is scored by session" not in table
    assert "batches failed" not in table
    for day in ("2023-05-20T02:21", "2023-05-21T10:00", "2023-05-22T09:15"):
        assert day in asked
    assert date.today().isoformat() not in asked
    assert "user: I painted my bicycle green" in asked
    assert "assistant: Let it dry for a day." in asked
    answers = {answer["question_id"]: answer for answer in tried.answers("product")}
    for number in range(3):
        answer = answers[f"gpt4_planted{number}_abs"]
        assert answer["provenance"] == "message"
        assert answer["recall_ids"] == [f"answer_of_{number}:0"]
        assert "(until 2023-05-29)" in answer["hypothesis"]


@pytest.mark.parametrize(("per", "provenance"), [("turn", "works"), ("session", "missing")])
def test_both_configurations_pass_the_check(per: str, provenance: str, with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        found = Tried("graphiti", with_product("graphiti"), server, f"per={per}").checked()
    assert found.pop("message ids") == provenance
    assert set(found.values()) == {"works"}


@pytest.mark.parametrize("as_of", [True, False])
def test_facts_that_are_not_valid_yet(as_of: bool, with_product: Callable[[str], Path]) -> None:
    """The fact is valid from the 31st, the question is asked on the 30th."""
    with endpoint() as server:
        responder = server.responder

        def later(body: dict[str, Any]) -> str:
            reply = responder(body)
            return json.dumps({"valid_at": "2023-05-31T00:00:00Z"}) if "valid_at" in json.loads(reply) else reply

        server.responder = later
        tried = Tried("graphiti", with_product("graphiti"), server, f"as_of={json.dumps(as_of)}")
        write_dataset(tried.folder / "d.json", planted(0))
        tried.call("prepare", "--dataset", "d.json")
        tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "r")
        (answer,) = tried.answers("r")
    assert answer["recall_ids"] == ([] if as_of else ["answer_of_0:0"])


def test_what_a_failed_batch_left_is_removed(with_product: Callable[[str], Path]) -> None:
    """The second message of a session fails; the next prepare adds the session again."""
    with endpoint() as server:
        tried = Tried("graphiti", with_product("graphiti"), server)
        write_dataset(tried.folder / "d.json", planted(0))
        responder = server.responder
        server.responder = lambda body: "{}" if "Let it dry" in str(body["messages"]) else responder(body)
        told = " ".join(tried.call("prepare", "--dataset", "d.json").stderr.split())
        assert "1 of 3 batches failed" in told
        server.responder = responder
        tried.call("prepare", "--dataset", "d.json")
    (file,) = (tried.folder / "prepared-data").glob("d/default/*/graphiti-*/state/saved/memory/episodes.json")
    kept = [message for one in json.loads(file.read_text())["episodes"].values() for message in one["message_ids"]]
    assert len(kept) == len(set(kept)) == 6


def test_vectors_of_unknown_length_serve_every_history(with_product: Callable[[str], Path]) -> None:
    """The first history is opened before anything is embedded, the others when the length is known."""
    with endpoint() as server:
        folder = with_product("graphiti")
        write_dataset(folder / "d.json", *(planted(number) for number in range(3)))
        memory = ("--dataset", "d.json", "--memory", "graphiti", "--set", "per=session", "--api-base", server.url)
        lent = ("--memory-model", "openai/m", "--embedder", "openai:e")
        longmemeval("prepare", "--jobs", "1", *memory, *lent, cwd=folder, OPENAI_API_KEY="sk-x")
        chat = ("--embedder", "openai:e", "--model", "offline/extractive", "--run-id", "r")
        longmemeval("run", *memory, *chat, cwd=folder, OPENAI_API_KEY="sk-x")
    assert_each_recalls_its_own(json_lines(folder / "results" / "r" / "answers.jsonl"), 3)


def test_vectors_longer_than_the_products_own_are_not_cut(with_product: Callable[[str], Path]) -> None:
    """What is told apart by the last numbers of 1,536 is found; the product keeps 1,024 by itself."""
    with endpoint() as server:
        server.dimension, short = 1536, server.vector
        server.vector = lambda text, dimension: np.concatenate(
            [np.zeros(dimension - 64, np.float32), short(text, 64)], dtype=np.float32
        )
        tried = Tried("graphiti", with_product("graphiti"), server, "embedding_dimension=0", "per=session")
        assert tried.checked()["search"] == "works"


@pytest.mark.parametrize("fails", [False, True])
def test_the_check_leaves_no_graph_on_a_server(fails: bool, with_product: Callable[[str], Path]) -> None:
    with endpoint() as server, falkordb() as (address, graphs):
        responder = server.responder
        if fails:
            server.responder = lambda body: "{}" if "Lisbon" in str(body["messages"]) else responder(body)
        tried = Tried("graphiti", with_product("graphiti"), server, "per=session", f"server={address}")
        words = [word for word in tried.words if word not in ("--memory", "graphiti")]
        command = ("memory", "check", "graphiti", *words, "--json")
        found = json.loads(longmemeval(*command, cwd=tried.folder, code=3 if fails else 0).stdout)
        if fails:
            assert (found[-1]["what"], found[-1]["state"]) == ("add", "failed")
        else:
            assert len(found) == 14
            assert {one["what"] for one in found if one["state"] != "works"} == {"message ids"}
        assert graphs() == []


def test_a_server_holds_one_graph_for_each_history(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server, falkordb() as (address, graphs):
        tried = Tried("graphiti", with_product("graphiti"), server, "per=session", f"server={address}")
        write_dataset(tried.folder / "d.json", planted(0), planted(1))
        tried.call("prepare", "--dataset", "d.json")
        tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "r")
        assert_each_recalls_its_own(tried.answers("r"), 2)
        assert len(graphs()) == 2
        assert all(one.startswith("longmemeval_") for one in graphs())
