"""Graphiti itself with embedded Kuzu, in an environment of its own, against a local endpoint."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.memory.adapters.products import Tried, endpoint, from_prepare_to_a_table, planted
from tests.support import write_dataset

pytestmark = pytest.mark.products


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with endpoint() as server:
        tried = Tried("graphiti", with_product("graphiti"), server)
        table = from_prepare_to_a_table(tried)
        asked = tried.sent()
    assert "graphiti-core 0.31.1" in table
    assert "provenance message, dates native, signals vectors + words, telemetry off" in table
    assert "0 of 9 batches failed" in table
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
