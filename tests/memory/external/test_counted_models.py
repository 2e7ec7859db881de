"""A memory that asks models: what it costs is counted on the wire, paid once, limited, and attributed."""

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.core.journal import read_journal
from longmemeval.llm.model_calls import ModelCall, read_calls
from longmemeval.results.preparation import PrepareRecord
from longmemeval.storage.fixture import read_meta
from tests.memory.external.transported import SERVE
from tests.pipeline.helpers import start
from tests.server import ModelServer, nobody
from tests.support import longmemeval, record, write_dataset

KEY = "sk-harness-secret-0123456789"
MEMORY = f"process:{SERVE} extracts:Extracts"
EXTRACTS = '''
import json, os, pathlib
from client import Client, Failed
import longmemeval.memory.external.serving.scope as scope
scope.CHECKPOINT_S = 0.0

class Extracts:
    """Has a model extract a fact from each session, and another look at the question."""

    def __init__(self, folder, chat_base_url, embedding_base_url, swallows=False, timeouts=None):
        self.chat, self.vectors = Client(chat_base_url, timeouts), Client(embedding_base_url, None)
        self.facts, self.swallows = [], swallows
        (folder / "environment.json").write_text(json.dumps(dict(os.environ)))
        pathlib.Path("environment.json").write_text(json.dumps(dict(os.environ)))

    def ask(self, text):
        try:
            return self.chat.reply("gpt-9", [{"role": "user", "content": text}])
        except Failed:
            if not self.swallows:
                raise
            return "nothing"

    def vector(self, text):
        return self.vectors.embedding("ada", [text])

    def add(self, session):
        said = " ".join(message.content for message in session.messages)
        fact = self.ask(f"On {session.date}, facts in: {said}")
        ids = [message.id for message in session.messages]
        self.facts.append({"text": fact, "message_ids": ids, "vector": self.vector(fact)})

    def search(self, query, *, date, limit):
        vector = self.vector(self.ask(f"Look for: {query}"))
        def near(fact):
            return sum(a * b for a, b in zip(fact["vector"], vector))
        best = sorted(self.facts, key=near, reverse=True)[:limit]
        return [{"text": fact["text"], "message_ids": fact["message_ids"]} for fact in best]

    def usage(self):
        return {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}  # As one of the products says.

    def save(self, folder):
        (folder / "facts.json").write_text(json.dumps(self.facts))

    def load(self, folder):
        self.facts = json.loads((folder / "facts.json").read_text())
'''


OPENAI = """
import openai

Failed = openai.OpenAIError

class Client:
    def __init__(self, base_url, timeout):
        patient = {"timeout": timeout, "max_retries": 0} if timeout else {}
        self.client = openai.OpenAI(base_url=base_url, api_key="longmemeval", **patient)

    def reply(self, model, messages):
        return self.client.chat.completions.create(model=model, messages=messages).choices[0].message.content

    def embedding(self, model, texts):
        return self.client.embeddings.create(model=model, input=texts).data[0].embedding
"""
"""The client that most memories use; to import it takes each process a second."""
PLAIN = """
import json, urllib.request

Failed = OSError

class Client:
    def __init__(self, base_url, timeout):
        self.base_url, self.timeout = base_url, timeout or 60
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def post(self, path, body):
        headers = {"Content-Type": "application/json", "Authorization": "Bearer longmemeval"}
        request = urllib.request.Request(self.base_url + path, json.dumps(body).encode(), headers)
        with self.opener.open(request, timeout=self.timeout) as reply:
            return json.load(reply)

    def reply(self, model, messages):
        (choice,) = self.post("/chat/completions", {"model": model, "messages": messages})["choices"]
        return choice["message"]["content"]

    def embedding(self, model, texts):
        return self.post("/embeddings", {"model": model, "input": texts})["data"][0]["embedding"]
"""


def fact(body: dict[str, Any]) -> str:
    """What the test server makes of a request: the last part of the text."""
    return str(body["messages"][-1]["content"]).rpartition(": ")[2]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(fact) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "extracts.py").write_text(EXTRACTS)
    (tmp_path / "client.py").write_text(PLAIN)
    other = record("q2_abs", haystack_sessions=[[{"role": "user", "content": f"A car, {n}."}] for n in range(3)])
    write_dataset(tmp_path / "d.json", record("q1"), other)
    return tmp_path


def prepare(server: ModelServer, *more: str, memory: str = MEMORY) -> list[str]:
    model = ("--memory-model", "openai/gpt-4o-mini", "--api-base", server.url)
    return ["prepare", "--dataset", "d.json", "--memory", memory, "--jobs", "1", *model, *more]


def part_calls(folder: Path, preparation: str = "default") -> dict[str, list[ModelCall]]:
    """The calls of each haystack, as its part has them."""
    files = (folder / "prepared-data" / "d" / preparation).glob("*/*/model-calls.jsonl")
    return {file.parent.parent.name: read_calls(file) for file in files}


def seen(server: ModelServer) -> tuple[int, int, int]:
    """Calls, prompt tokens and completion tokens, as the endpoint counts them."""
    texts = [request.body["messages"][-1]["content"] for request in server.chat_requests]
    replies = [fact(request.body) for request in server.chat_requests]
    return len(texts), sum(len(text.split()) for text in texts), sum(len(text.split()) for text in replies)


def test_a_memory_reaches_its_models_whatever_proxy_the_environment_names(folder: Path, server: ModelServer) -> None:
    (folder / "client.py").write_text(OPENAI)
    dead = "http://127.0.0.1:9"
    longmemeval(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY, HTTP_PROXY=dead, ALL_PROXY=dead)
    assert len(server.chat_requests) == 6


def test_ingestion_is_counted_as_the_endpoint_saw_it_and_paid_once(folder: Path, server: ModelServer) -> None:
    (folder / "client.py").write_text(OPENAI)
    done = longmemeval(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY)
    counted = [call for calls in part_calls(folder).values() for call in calls]
    chats = [call for call in counted if call.kind == "chat"]
    sums = len(chats), sum(call.prompt_tokens for call in chats), sum(call.completion_tokens for call in chats)
    assert sums == seen(server)
    assert sums[0] == 6
    assert {call.stage for call in counted} == {"prepare"}
    assert {(call.model, call.asked) for call in counted} == {("openai/gpt-4o-mini", "gpt-9"), ("hashing", "ada")}
    records = read_journal(folder / "prepared-data/d/default/prepare.jsonl", PrepareRecord)
    usage = [record.usage for record in records if record.work == "fixture"]
    assert sum(one.calls for one in usage) == 6
    assert sum(one.prompt_tokens for one in usage) == sums[1]
    assert sum(one.cost_usd for one in usage) == pytest.approx(sums[1] * 0.15e-6 + sums[2] * 0.6e-6)
    meta = read_meta(folder / "prepared-data/d/default/q1")
    assert meta is not None
    (told,) = (info.stats for info in meta.parts.values() if info.stats)
    mine = [call for call in part_calls(folder)["q1"] if call.kind == "chat"]
    assert (told["model_calls"], told["messages"], told["embedding_texts"]) == (3, 6, 3)
    assert told["prompt_tokens"] == sum(call.prompt_tokens for call in mine)
    assert told["models"] == {"chat": "openai/gpt-4o-mini", "embeddings": "hashing"}
    shown = " ".join(done.stdout.split())
    assert "Model use: 6 calls" in shown
    assert f"{(sums[1] + sums[2]) / 2:,.0f} tokens and <$0.0001 per haystack" in shown
    assert f"{(sums[1] + sums[2]) / 9 * 1000:,.0f} tokens and $0.00" in shown
    # A second one, the same in another preparation, and the same from the beginning: nobody is asked. Another client
    # sends the same requests, and takes a second less to import.
    (folder / "client.py").write_text(PLAIN)
    longmemeval(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY)
    longmemeval(*prepare(server, "--name", "again"), cwd=folder, OPENAI_API_KEY=KEY)
    longmemeval(*prepare(server, "--force"), cwd=folder, OPENAI_API_KEY=KEY)
    assert len(server.requests) == 6
    again = [call for calls in part_calls(folder, "again").values() for call in calls]
    assert all(call.cached for call in again if call.kind == "chat")  # Hashed vectors are made anew.


@pytest.mark.thorough
def test_tokens_per_haystack_are_the_same_at_prepare_and_at_evaluate(folder: Path, server: ModelServer) -> None:
    """Of a memory whose texts are embedded by a server too."""
    embedder = ("--embedder", "openai:text-embedding-3-small")
    done = longmemeval(*prepare(server, *embedder), cwd=folder, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)
    (said,) = re.findall(r"([\d,]+) tokens and \S+ \S* ?per haystack", " ".join(done.stdout.split()))
    calls = [call for calls in part_calls(folder).values() for call in calls]
    assert {call.kind for call in calls} == {"chat", "embeddings"}
    assert said == f"{sum(call.prompt_tokens + call.completion_tokens for call in calls) / 2:,.0f}"
    asked = ("--dataset", "d.json", "--memory", MEMORY, "--model", "offline/extractive", "--run-id", "r")
    base = ("--api-base", server.url)
    longmemeval("run", *asked, *base, cwd=folder, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)
    shown = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder, COLUMNS="250").stdout
    (row,) = [line.split() for line in shown.splitlines() if line.split()[:1] == ["r"]]
    assert row[2] == said


@pytest.mark.thorough
def test_a_dry_run_knows_the_calls_of_a_memory_once_a_history_was_prepared(folder: Path, server: ModelServer) -> None:
    unknown = longmemeval(*prepare(server, "--dry-run"), cwd=folder, OPENAI_API_KEY=KEY)
    assert "time: unknown" in unknown.stdout
    assert " calls (about)" not in unknown.stdout
    assert "its model calls are unknown. Add --measure 1" in " ".join(unknown.stderr.split())
    assert server.requests == []
    # What is printed works when it is typed: one history is prepared, and its three calls stand for the other's.
    measured = longmemeval(*prepare(server, "--dry-run", "--measure", "1", "--json"), cwd=folder, OPENAI_API_KEY=KEY)
    report = json.loads(measured.stdout)
    assert len(server.chat_requests) == report["usage"]["calls"] == 3
    figures = {name.partition(", ")[2]: value for name, value in report["estimate"].items() if ", " in name}
    assert figures["calls (at least)"] <= 3 <= figures["calls (at most)"]
    assert figures["calls (at least)"] < figures["calls (about)"] < figures["calls (at most)"]
    assert 0 < figures["USD (at least)"] < figures["USD (about)"] < figures["USD (at most)"]
    assert report["prepared"] == 1
    assert report["expected"]["seconds"] > 0
    assert len(part_calls(folder)) == 1
    # It stays prepared: the rest costs what the rest costs, and lies in the range.
    done = json.loads(longmemeval(*prepare(server, "--json"), cwd=folder, OPENAI_API_KEY=KEY).stdout)
    assert (done["prepared"], done["usage"]["calls"]) == (1, 3)
    assert figures["prompt tokens (at least)"] <= done["usage"]["prompt_tokens"] <= figures["prompt tokens (at most)"]
    # Two histories give a range of their own, in another preparation too.
    again = longmemeval(*prepare(server, "--dry-run", "--name", "again"), cwd=folder, OPENAI_API_KEY=KEY)
    assert "as counted for 2 histories" in " ".join(again.stderr.split())
    refused = longmemeval(*prepare(server, "--measure", "1"), cwd=folder, code=2, OPENAI_API_KEY=KEY)
    assert "--measure needs --dry-run" in refused.stderr


def test_no_key_and_no_label_reaches_the_endpoint_the_child_or_a_file(folder: Path, server: ModelServer) -> None:
    longmemeval(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY)
    run = ("run", "--dataset", "d.json", "--memory", MEMORY, "--model", "offline/extractive", "--run-id", "r")
    longmemeval(*run, "--api-base", server.url, cwd=folder, OPENAI_API_KEY=KEY)
    sent = json.dumps([request.body for request in server.requests]).lower()
    assert "bicycle" in sent
    for label in ("answer_1", "_abs", "q2", "filler", "has_answer", "single-session"):
        assert label not in sent
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["OPENAI_API_KEY"] == "longmemeval"
    states = [path for path in folder.glob("prepared-data/d/default/*/*/state/**/*") if path.is_file()]
    assert states
    assert all(b"answer_1" not in path.read_bytes() for path in states)
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    # What a search asks is counted for the run, by haystack.
    calls = read_calls(folder / "results/r/model-calls.jsonl")
    assert [(call.stage, call.kind) for call in calls].count(("search", "chat")) == 2
    assert {call.haystack_id for call in calls} == {"q1", "q2_abs"}
    told = json.loads((folder / "results/r/run.json").read_text())["totals"]["memory_calls"]
    assert (told["calls"], told["embedding_calls"]) == (2, 2)
    assert told["prompt_tokens"] == sum(call.prompt_tokens for call in calls if call.kind == "chat")
    # Tables show what was counted, and say that the memory says something else.
    shown = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder).stdout
    words = " ".join(shown.split())
    ingested = [call for calls in part_calls(folder).values() for call in calls if call.kind == "chat"]
    prompt, reply = (sum(getattr(call, f"{kind}_tokens") for call in ingested) for kind in ("prompt", "completion"))
    assert "Extracts says of itself 0 calls, 0 prompt and 0 reply tokens" in words
    assert f"counted on the wire: 6 calls, {prompt} prompt and {reply} reply tokens." in words
    assert "models asked at ingestion: chat by openai/gpt-4o-mini, embeddings by hashing" in words
    compared = longmemeval("compare", "r", "--tables", cwd=folder).stdout
    (row,) = [line.split() for line in compared.splitlines() if "3.0" in line]
    assert row[:3] == ["Extracts", "3.0", f"{(prompt + reply) / 2:,.0f}"]
    assert row[3] == f"{(prompt + reply) / 9 * 1000:,.0f}"


@pytest.mark.thorough
def test_the_check_offers_models_too(folder: Path, server: ModelServer) -> None:
    model = ("--memory-model", "openai/gpt-4o-mini", "--api-base", server.url)
    done = longmemeval("memory", "check", MEMORY, *model, "--json", cwd=folder, OPENAI_API_KEY=KEY)
    found = {one["what"]: one["state"] for one in json.loads(done.stdout)}
    assert (found["begin"], found["add"], found["search"]) == ("works", "works", "works")
    assert server.chat_requests
    done = longmemeval("memory", "check", MEMORY, cwd=folder, code=3, OPENAI_API_KEY=KEY)
    assert "none is configured for it" in " ".join(done.stderr.split())


def test_a_killed_prepare_pays_nothing_twice(folder: Path, server: ModelServer) -> None:
    going_on = threading.Event()

    def reply(body: dict[str, Any]) -> str:
        if "Name three rivers" in str(body):
            going_on.wait(60)
        return fact(body)

    server.responder = reply
    command = start(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY)
    deadline = time.monotonic() + 120
    while "Name three rivers" not in json.dumps([request.body for request in server.requests]):
        assert time.monotonic() < deadline
        assert command.poll() is None
        time.sleep(0.02)
    command.send_signal(signal.SIGKILL, group=True)
    command.communicate()
    going_on.set()
    asked_before = len(server.chat_requests)
    done = longmemeval(*prepare(server), cwd=folder, OPENAI_API_KEY=KEY)
    texts = [request.body["messages"][-1]["content"] for request in server.chat_requests]
    # The one that was under way is asked again; nobody had its reply.
    assert len(texts) == 7
    assert len(set(texts)) == 6
    assert [texts.count(text) for text in dict.fromkeys(texts)].count(2) == 1
    assert "paid before it was stopped" in " ".join(done.stdout.split()) or asked_before <= 3
    records = read_journal(folder / "prepared-data/d/default/prepare.jsonl", PrepareRecord)
    assert sum(record.usage.calls - record.usage.cached_calls for record in records) == 6


@pytest.mark.thorough
def test_replies_that_the_memory_no_longer_waits_for_are_counted(folder: Path, server: ModelServer) -> None:
    (folder / "client.py").write_text(OPENAI)
    server.plan = lambda: "slow:1.0"
    hasty = ("--set", "swallows=true", "--set", "timeouts=0.3")
    longmemeval(*prepare(server, *hasty), cwd=folder, OPENAI_API_KEY=KEY)
    prepared = len(server.chat_requests)
    assert prepared == 6
    assert sum(len([call for call in calls if call.kind == "chat"]) for calls in part_calls(folder).values()) == 6
    records = read_journal(folder / "prepared-data/d/default/prepare.jsonl", PrepareRecord)
    assert sum(record.usage.calls - record.usage.cached_calls for record in records) == 6
    words = ("run", "--dataset", "d.json", "--memory", MEMORY, *hasty, "--model", "offline/extractive", "--run-id", "r")
    longmemeval(*words, "--api-base", server.url, cwd=folder, OPENAI_API_KEY=KEY)
    # Both histories are asked the same.
    assert len(server.chat_requests) - prepared == 1
    searched = [call for call in read_calls(folder / "results/r/model-calls.jsonl") if call.kind == "chat"]
    assert sorted(call.cached for call in searched) == [False, True]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_spending_limit_ends_it_and_a_higher_one_goes_on(folder: Path, server: ModelServer, swallows: bool) -> None:
    """Also of a memory that goes on without its model: what it added then is added again."""
    words = prepare(server, "--set", f"swallows={'true' if swallows else 'false'}")
    # Room for one call at a time, whose reply may be long.
    stopped = longmemeval(*words, "--max-cost", "0.00985", cwd=folder, code=1, OPENAI_API_KEY=KEY)
    assert "Spending limit reached" in stopped.stderr
    asked = len(server.chat_requests)
    assert 0 < asked < 6
    longmemeval(*words, "--max-cost", "1", cwd=folder, OPENAI_API_KEY=KEY)
    assert len(server.chat_requests) == 6
    states = (folder / "prepared-data/d/default").glob("*/*/state/saved/memory/facts.json")
    facts = [one["text"] for state in states for one in json.loads(state.read_text())]
    assert len(facts) == 6
    assert "nothing" not in facts


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ((), "none is configured for it"),
        (("--memory-model", "openai/gpt-4o-mini", "--api-base", nobody()), "batches failed"),
        (("--memory-model", "offline/extractive"), "answers questions of this harness"),
        (("--memory-model", "openai/gpt-4o-mini"), "OPENAI_API_KEY"),
    ],
)
def test_what_cannot_be_asked_is_told(folder: Path, model: tuple[str, ...], told: str) -> None:
    key = {"OPENAI_API_KEY": KEY} if "--api-base" in model else {}
    words = ("prepare", "--dataset", "d.json", "--memory", MEMORY, "--jobs", "1", "--give-up-after", "0.1")
    done = longmemeval(*words, *model, cwd=folder, code=1 if key else 2, **key)
    shown = " ".join(done.stderr.split())
    assert told in shown or (key and "cannot be reached" in shown) or "failed every call" in shown
    if not model:
        assert "Give `prepare` --memory-model" in shown
