"""The recall explorer: what is recalled follows from the address, and the memory never sees the evidence."""

import re

import pytest
from starlette.testclient import TestClient

from longmemeval import settings
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.view.explorer import configuration_from, fields_of, memories_to_try
from tests.made_once import sample_demo
from tests.support import ROOT
from tests.view.client import visitor

KAYAK = "smp_a001"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    demo = sample_demo(tmp_path_factory).folder
    folders = settings.folders(ROOT / "data", demo / "prepared-data", demo / "results")
    return visitor(folders, ["demo-hybrid", "demo-last-k"])


def recalled(client: TestClient, **given: str) -> str:
    reply = client.get("/explore/result", params={"q": KAYAK, "memory": "hybrid", **given})
    assert reply.status_code == 200
    assert "<html" not in reply.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", reply.text))


def test_settings_change_ranks_tokens_and_evidence(client: TestClient) -> None:
    assert "935 tokens · 25 messages · evidence 2 of 3, first at rank 1" in recalled(client)
    assert "1 messages · evidence 1 of 3" in recalled(
        client, **{"set.top_k": "1", "set.message_range": "0", "set.last_messages": "0"}
    )
    assert "retrieved, then truncated by the budget" in recalled(client, **{"set.budget": "200"})
    assert "evidence 3 of 3" in recalled(client, **{"set.top_k": "60"})


def test_a_typed_question_is_asked_of_the_same_history(client: TestClient) -> None:
    assert recalled(client, text="What do I eat on Sundays?") != recalled(client)
    assert recalled(client, text="  ") == recalled(client)


def test_ingredients_are_columns(client: TestClient) -> None:
    assert "wordsvectorsspeakerstatementdate" in recalled(client)
    assert "vectors" not in recalled(client, memory="bm25")


def test_what_is_wrong_with_a_setting_is_said(client: TestClient) -> None:
    assert "cannot have top_k = 0" in recalled(client, **{"set.top_k": "0"})
    page = client.get("/explore", params={"q": KAYAK, "memory": "hybrid", "set.top_k": "many"})
    assert page.status_code == 200
    assert 'value="many"' in page.text
    assert client.get("/explore", params={"q": "nothing"}).status_code == 409


def test_the_oracle_and_memories_with_a_chat_model_cannot_be_tried(client: TestClient) -> None:
    offered = memories_to_try()
    assert "oracle" not in offered
    assert {"hybrid", "bm25", "last-k", "typed-nodes"} <= set(offered)
    assert "<option selected>hybrid</option>" in client.get("/explore", params={"memory": "oracle"}).text


def test_a_question_can_be_looked_for(client: TestClient) -> None:
    page = client.get("/explore", params={"find": "KAYAK"}).text
    assert "How many kilometres have I paddled" in page
    assert "No question contains" in client.get("/explore", params={"find": "<nothing>"}).text


def test_values_start_from_those_of_a_run() -> None:
    of_run = resolve_configuration("hybrid", ["top_k=3", "budget=900"])
    found, start = configuration_from("hybrid", {"message_range": "1", "nonsense": "2"}, [of_run])
    assert (found.parameters["top_k"], found.parameters["message_range"], found.parameters["budget"]) == (3, 1, 900)
    assert start == of_run
    unset, _ = configuration_from("hybrid", {"budget": ""}, [of_run])
    assert unset.parameters["budget"] is None
    assert [field.name for field in fields_of(found, start)][:4] == [
        "top_k",
        "message_range",
        "last_messages",
        "budget",
    ]
    with pytest.raises(HarnessError):
        configuration_from("hybrid", {"top_k": "a: b"}, [])
