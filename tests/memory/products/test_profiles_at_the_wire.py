"""Profiles of real products, each in an environment of its own: which prompts, users and limits they ask with."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.memory.products.products import DIMENSION, Tried, extracted, planted, words_vector
from tests.memory.products.test_graphiti import falkordb
from tests.server import ModelServer
from tests.support import json_lines, write_dataset

pytestmark = [pytest.mark.products, pytest.mark.timeout(900)]
SURE = {"token": "True", "logprob": -0.1, "bytes": None}


class Judging(ModelServer):
    """An endpoint that extracts by rules, and finds every passage relevant, with log-probabilities."""

    def __init__(self) -> None:
        super().__init__(
            lambda body: "True" if body.get("logprobs") else extracted(body), dimension=DIMENSION, vector=words_vector
        )

    def completion(self, body: dict[str, Any], choices: list[dict[str, Any]], text: str) -> dict[str, Any]:
        if body.get("logprobs"):
            choices[0]["logprobs"] = {"content": [{**SURE, "top_logprobs": [SURE]}]}
        return super().completion(body, choices, text)


def talk(folder: Path) -> None:
    """A conversation of two named people, as LoCoMo has it."""
    told = [("Alice", "I moved to Porto."), ("Bob", "I stay in Lisbon."), ("Alice", "I am well."), ("Bob", "Good.")]
    turns = [{"speaker": name, "dia_id": f"D1:{n}", "text": text} for n, (name, text) in enumerate(told, 1)]
    conversation = {"speaker_a": "Alice", "speaker_b": "Bob", "session_1_date_time": "1:56 pm on 8 May, 2023"}
    questions = [{"question": "Where is Alice?", "answer": "Porto", "evidence": ["D1:1"], "category": 4}]
    one = {"sample_id": "c", "conversation": {**conversation, "session_1": turns}, "qa": questions}
    (folder / "d.json").write_text(json.dumps([one]))


def asked(tried: Tried) -> tuple[list[str], list[str], str]:
    """The chat requests of preparing and of running, and the prompt of the answer."""
    tried.call("prepare", "--dataset", "d.json")
    prepared = len(tried.server.chat_requests)
    tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "r")
    sent = [json.dumps(one.body) for one in tried.server.chat_requests]
    (prompt,) = json_lines(tried.folder / "results" / "r" / "prompts.jsonl")
    return sent[:prepared], sent[prepared:], str(prompt["messages"][-1]["content"])


def test_mem0_as_its_makers_measure_it(with_product: Callable[[str], Path]) -> None:
    """Two messages an `add`, once for each speaker with the roles turned round, with their instructions."""
    with Judging() as server:
        tried = Tried("mem0", with_product("mem0"), server, "profile=vendor")
        talk(tried.folder)
        ingestion, search, _ = asked(tried)
    assert len(ingestion) == 4
    assert not search
    assert all("## Custom Instructions" in one and "charity race" in one for one in ingestion)
    new = [one.rpartition("## New Messages")[2].partition("## Observation Date")[0] for one in ingestion]
    assert sum("user: Alice: I moved" in one and "assistant: Bob: I stay" in one for one in new) == 1
    assert sum("assistant: Alice: I moved" in one and "user: Bob: I stay" in one for one in new) == 1
    (answer,) = tried.answers("r")
    assert answer["provenance"] == "message"


@pytest.mark.parametrize("database", ["kuzu", "falkordb"])
def test_graphiti_as_its_makers_measure_it(database: str, with_product: Callable[[str], Path]) -> None:
    """The chat model ranks each fact; summaries of people and things stand beside them, each with its messages."""
    with Judging() as server, ExitStack() as stack:
        kept = [f"server={stack.enter_context(falkordb())[0]}"] if database == "falkordb" else []
        tried = Tried("graphiti", with_product("graphiti"), server, "profile=vendor", *kept)
        write_dataset(tried.folder / "d.json", planted(0))
        _, search, prompt = asked(tried)
    ranked = [one for one in search if 'Respond with \\"True\\"' in one]
    assert len(ranked) == len(search) >= 6, "the search that warms it up may ask too"
    assert "# Summaries" in prompt
    assert "Speaker: " in prompt
    (answer,) = tried.answers("r")
    assert answer["provenance"] == "message"


def test_a_search_setting_asks_for_no_new_ingestion(with_product: Callable[[str], Path]) -> None:
    with Judging() as server:
        tried = Tried("graphiti", with_product("graphiti"), server)
        write_dataset(tried.folder / "d.json", planted(0))
        tried.call("prepare", "--dataset", "d.json")
        paid, usual = len(server.chat_requests), list(tried.words)
        tried.words = [*usual, "--set", "reranker=cross_encoder"]
        assert "Already prepared" in tried.call("prepare", "--dataset", "d.json").stdout
        tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "r")
        assert all(one.body.get("logprobs") for one in server.chat_requests[paid:])
        assert len(server.chat_requests) > paid


def test_hindsight_as_its_makers_measure_it_but_for_the_reranker(with_product: Callable[[str], Path]) -> None:
    with Judging() as server:
        changed = ("profile=vendor", "reranker=rrf", "observations=false")
        tried = Tried("hindsight", with_product("hindsight"), server, *changed)
        talk(tried.folder)
        ingestion, _, prompt = asked(tried)
        assert all("Conversation between Alice and Bob" in one for one in ingestion)
        assert "# Summaries" in prompt, "pieces of the documents"
        tried.words += ["--set", "reranker=local"]
        done = tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "l", code=1)
    assert "sentence-transformers" in " ".join((done.stdout + done.stderr).split()), "never fused ranks in its place"


def test_langmem_as_it_is_by_default_cannot_remove(with_product: Callable[[str], Path]) -> None:
    with Judging() as server:
        server.message = lambda body: {"content": "Nothing to remember."}
        tried = Tried("langmem", with_product("langmem"), server)
        talk(tried.folder)
        sent = {}
        for profile in ("ours", "product"):
            tried.words += ["--set", f"profile={profile}"]
            before = len(server.chat_requests)
            tried.call("prepare", "--dataset", "d.json", "--name", profile)
            sent[profile] = json.dumps([one.body for one in server.chat_requests[before:]])
    assert "RemoveDoc" in sent["ours"] or sent["ours"] != sent["product"]


def test_chroma_as_mempalace_measures_it(with_product: Callable[[str], Path]) -> None:
    """One text for each session: what the user said."""
    with Judging() as server:
        tried = Tried("chroma", with_product("chroma"), server, "profile=mempalace", chats=False)
        talk(tried.folder)
        _, _, prompt = asked(tried)
        texts = [one.body["input"] for one in server.requests if one.path.endswith("/embeddings")]
    assert ["I moved to Porto.\nI am well."] in texts
    assert "Lisbon" not in prompt
