"""LangMem itself, in an environment of its own, against a local endpoint."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.memory.products.products import DIMENSION, Tried, from_prepare_to_a_table, planted, words_vector
from tests.server import ModelServer
from tests.support import write_dataset

_SAID = re.compile(r"=+ Human Message =+\n\n(.*?)\n\n", re.DOTALL)
_EXISTING = re.compile(r"<instance id=(\w+) ")


def remembered(body: dict[str, Any], *, corrects: bool = True) -> dict[str, Any]:
    """A model that remembers what users say, and corrects a memory it is shown instead of adding a second.

    Args:
        corrects: unset, it only adds.
    """
    asked = str(body["messages"][-1]["content"])
    facts = _SAID.findall(asked + "\n\n")
    existing = _EXISTING.findall(str(body["messages"][0]["content"]))
    corrected = [{"op": "replace", "path": "/content", "value": f"{facts[0]} Twice."}] if facts else []
    calls = (
        [("PatchDoc", {"json_doc_id": existing[0], "planned_edits": "it was said again", "patches": corrected})]
        if corrects and existing and "again" in asked
        else [("Memory", {"content": fact}) for fact in facts]
    )
    told = [
        {"id": f"c{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(calls)
    ]
    return {"content": None, "tool_calls": told}


def endpoint() -> ModelServer:
    server = ModelServer(dimension=DIMENSION, vector=words_vector)
    server.message = remembered
    return server


@pytest.mark.thorough
def test_from_a_killed_prepare_to_a_table(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("langmem", with_product("langmem"), server)
        table = from_prepare_to_a_table(tried)
        asked = [str(one.body["messages"][-1]["content"]) for one in server.chat_requests]
    assert "langmem 0.0.30" in table
    assert "recall is scored by session" in table
    assert "session dates are passed as text only" in table
    assert "batches failed" not in table
    days = {re.findall(r"took place on (.*?)\.\n", prompt)[0] for prompt in asked}
    assert days == {"Saturday, 20 May 2023, 02:21", "Sunday, 21 May 2023, 10:00", "Monday, 22 May 2023, 09:15"}
    first = tried.answers("product")[0]
    assert first["provenance"] == "session"
    assert first["recall_sessions"]


@pytest.mark.thorough
def test_a_memory_that_is_changed_comes_from_both_sessions(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("langmem", with_product("langmem"), server)
        told = planted(0)
        told["haystack_sessions"] = [
            [{"role": "user", "content": "My bicycle is green."}, {"role": "assistant", "content": "Good."}],
            [{"role": "user", "content": "My bicycle is green, again."}, {"role": "assistant", "content": "Good."}],
            [{"role": "user", "content": "It rains in Porto."}, {"role": "assistant", "content": "It does."}],
        ]
        write_dataset(tried.folder / "d.json", told)
        tried.call("prepare", "--dataset", "d.json")
        tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "r")
    (answer,) = tried.answers("r")
    assert set(answer["recall_sessions"]) == {"noise_a", "answer_of_0", "noise_b"}
    (sources,) = (tried.folder / "prepared-data").glob("d/default/*/langmem-*/state/saved/memory/sources.json")
    written = sorted(len(one["sessions"]) for one in json.loads(sources.read_text()).values())
    assert written == [1, 2]


@pytest.mark.thorough
def test_the_store_alone_asks_no_chat_model(with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        found = Tried("langmem", with_product("langmem"), server, "mode=raw").checked()
        assert server.chat_requests == []
    assert set(found.values()) == {"works"}


@pytest.mark.parametrize("setting", ["mode=all"])
def test_a_setting_it_does_not_have(setting: str, with_product: Callable[[str], Path]) -> None:
    with endpoint() as server:
        tried = Tried("langmem", with_product("langmem"), server, setting)
        write_dataset(tried.folder / "d.json", planted(0))
        told = " ".join(tried.call("prepare", "--dataset", "d.json", code=1).stderr.split())
    assert "mode is extract or raw, not all" in told
