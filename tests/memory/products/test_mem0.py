"""Mem0 itself, in an environment of its own, against a local endpoint."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests.memory.products.products import Tried, endpoint, from_prepare_to_a_table, planted
from tests.support import write_dataset

pytestmark = pytest.mark.products


def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("mem0", with_product("mem0"), server)
        table = from_prepare_to_a_table(tried)
        asked = [str(one.body["messages"][-1]["content"]) for one in server.chat_requests]
    assert "mem0ai 2.2.1" in table
    assert "recall is scored by session" in table
    assert "batches failed" not in table
    days = {prompt.split("## Observation Date\n")[1][:10] for prompt in asked}
    assert days == {"2023-05-20", "2023-05-21", "2023-05-22"}
    assert date.today().isoformat() not in "".join(asked)
    assert all("user: " in prompt and "assistant: " in prompt for prompt in asked)
    (first, *_) = tried.answers("product")
    assert first["provenance"] == "session"
    assert first["recall_sessions"]


@pytest.mark.parametrize(
    ("configuration", "provenance"), [((), "missing"), (("per=pair",), "works"), (("infer=false",), "works")]
)
def test_every_configuration_passes_the_check(
    configuration: tuple[str, ...], provenance: str, with_product: Callable[[str], Path]
) -> None:
    with endpoint() as server:
        found = Tried("mem0", with_product("mem0"), server, *configuration).checked()
        assert bool(server.chat_requests) == (configuration != ("infer=false",))
    assert found.pop("message ids") == provenance
    assert set(found.values()) == {"works"}


def test_a_reply_that_cannot_be_parsed_is_a_failed_batch(with_product: Callable[[str], Path]) -> None:
    """To the product it is a session without facts."""
    with endpoint() as server:
        tried = Tried("mem0", with_product("mem0"), server)
        write_dataset(tried.folder / "d.json", planted(0))
        server.faults.append("cut")
        told = " ".join(tried.call("prepare", "--dataset", "d.json").stderr.split())
    assert "1 of 3 batches failed" in told
    assert "Error parsing extraction response" in told


def test_names_of_speakers_reach_the_extraction(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("mem0", with_product("mem0"), server)
        turns = [{"speaker": "Alice", "dia_id": "D1:1", "text": "I moved to Porto."}]
        turns.append({"speaker": "Bob", "dia_id": "D1:2", "text": "I stay in Lisbon."})
        talk = {
            "speaker_a": "Alice",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": turns,
        }
        questions = [{"question": "Where is Alice?", "answer": "Porto", "evidence": ["D1:1"], "category": 4}]
        (tried.folder / "l.json").write_text(json.dumps([{"sample_id": "c", "conversation": talk, "qa": questions}]))
        tried.call("prepare", "--dataset", "l.json")
        (prompt,) = [str(one.body["messages"][-1]["content"]) for one in server.chat_requests]
    assert "user: Alice: I moved to Porto." in prompt
    assert "assistant: Bob: I stay in Lisbon." in prompt
    assert "## Observation Date\n2023-05-08" in prompt
