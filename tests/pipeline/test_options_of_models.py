"""Options of the models beside reader and judge: extractors, memories' models, question models and embedders.

Each from what a user writes to the bytes that a server gets, into recipes and manifests, kept by a resumed command and
by `run --like`; without them everything is as before.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import vector_length
from longmemeval.llm.options import ModelOptions, named, with_options
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.memory.external.test_counted_models import EXTRACTS, MEMORY, PLAIN
from tests.pipeline.batches.batched import BATCH
from tests.pipeline.helpers import colours, folders_in, manifest, painted_keys, start, stop_when
from tests.server import ModelServer, ReasoningServer
from tests.support import longmemeval

KEYS = ("expansion=fact", "expansion_level=turn")
EXTRACTORS = {
    "node_model": ("typed-nodes", '{"entries": []}'),
    "fact_model": ("engram-lean", '{"facts": []}'),
    "working_memory_model": ("working-memory", '{"edits": []}'),
    "expansion_model": ("bm25", '{"items": []}'),
}
LIMIT = {"node_model": 4000, "fact_model": 4000, "working_memory_model": 1500, "expansion_model": 2000}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    colours(tmp_path / "colours.json", 2)
    return folders_in(tmp_path)


def prepared(folders: Folders, server: ModelServer, option: str, spec: str, **options: Any) -> PrepareReport:
    preset, _ = EXTRACTORS[option]
    memory = resolve_configuration(preset, KEYS if option == "expansion_model" else ())
    chosen = PrepareOptions(jobs=1, api_base=server.url).replaced(**{option: spec}, **options)
    dataset = load_dataset(folders.prepared_dir.parent / "colours.json")
    return prepare(dataset, [memory], options=chosen, folders=folders)


def recipes(folders: Folders, name: str = "default") -> list[dict[str, Any]]:
    """The recipes of one fixture that name a model."""
    meta = json.loads((folders.prepared_dir / "colours" / name / "q0" / "meta.json").read_text())
    return [part["recipe"] for part in meta["parts"].values() if "model" in part["recipe"]]


def sent(server: ModelServer, *fields: str) -> set[tuple[Any, ...]]:
    return {tuple(request.body.get(field) for field in fields) for request in server.chat_requests}


@pytest.mark.parametrize("option", EXTRACTORS)
def test_extractors_get_them_have_room_and_record_them(folders: Folders, option: str) -> None:
    with ReasoningServer(lambda body: EXTRACTORS[option][1]) as server:
        prepared(folders, server, option, "openai/my-gpt5", reasoning_effort="low", model_option=("tier=flex",))
        fields = ("model", "reasoning_effort", "tier", "max_tokens")
        ((model, effort, tier, limit),) = sent(server, *fields)
        calls = len(server.chat_requests)
        assert (model, effort, tier, limit) == ("my-gpt5", "low", "flex", LIMIT[option] + 8192)
        # A second command with the same options has nothing to do, one without them is told so.
        prepared(folders, server, option, "openai/my-gpt5,tier=flex,reasoning_effort=low")
        with pytest.raises(HarnessError, match="another recipe"):
            prepared(folders, server, option, "openai/my-gpt5")
        assert len(server.chat_requests) == calls
        # Replies of the cache are those to the same options.
        prepared(folders, server, option, "openai/my-gpt5", name="other", reasoning_effort="high")
        assert len(server.chat_requests) == 2 * calls
    (recipe,) = recipes(folders)
    assert recipe["model"] == "openai/my-gpt5,reasoning_effort=low,tier=flex"
    assert verify("colours/default", folders=folders).problems == ()


@pytest.mark.parametrize("option", EXTRACTORS)
def test_without_them_recipes_and_requests_are_as_before(folders: Folders, option: str) -> None:
    with ModelServer(lambda body: EXTRACTORS[option][1]) as server:
        prepared(folders, server, option, "openai/local")
        assert sent(server, "temperature", "max_tokens") == {(0.0, LIMIT[option])}
        assert {frozenset(request.body) for request in server.chat_requests} == {
            frozenset(("messages", "model", "temperature", "max_tokens", "n"))
        }
    (recipe,) = recipes(folders)
    assert (recipe["model"], recipe["temperature"], recipe["max_tokens"]) == ("openai/local", 0.0, LIMIT[option])


def test_an_extractor_behind_an_alias_is_asked_once_more_with_room(folders: Folders) -> None:
    with ReasoningServer(lambda body: '{"entries": []}') as server:
        server.spends[None] = 5000
        report = prepared(folders, server, "node_model", "openai/my-alias")
        assert {4000, 4000 + 16384} == {request.body["max_tokens"] for request in server.chat_requests}
    assert not report.dropped


def test_an_observer_gets_them(folders: Folders) -> None:
    memory = resolve_configuration("observational", ["message_tokens=10"])
    dataset = load_dataset(folders.prepared_dir.parent / "colours.json")
    with ReasoningServer(lambda body: "nothing") as server:
        chosen = PrepareOptions(jobs=1, api_base=server.url, observer_model="openai/my-gpt5", reasoning_effort="low")
        prepare(dataset, [memory], options=chosen, folders=folders)
        assert sent(server, "model", "reasoning_effort", "max_tokens") == {("my-gpt5", "low", 16000 + 8192)}
    (recipe,) = recipes(folders)
    assert recipe["model"] == "openai/my-gpt5,reasoning_effort=low"


def test_limit_and_temperature_of_an_extractor_stand_in_its_recipe(folders: Folders) -> None:
    with ModelServer(lambda body: '{"entries": []}') as server:
        prepared(folders, server, "node_model", "openai/local,max_tokens=900", temperature=0.5)
        assert sent(server, "temperature", "max_tokens") == {(0.5, 900)}
    (recipe,) = recipes(folders)
    assert (recipe["temperature"], recipe["max_tokens"]) == (0.5, 900)


def test_a_killed_prepare_keeps_them_and_a_run_names_them_in_its_command(tmp_path: Path, folders: Folders) -> None:
    with ReasoningServer(painted_keys) as server:
        server.plan = lambda: "hang" if len(server.chat_requests) >= 5 else None
        chosen = ["--expansion-model", "openai/my-gpt5", "--reasoning-effort", "low", "--jobs", "1"]
        line = ["prepare", "-d", "colours.json", "-m", "bm25", "--set", KEYS[0], "--set", KEYS[1], *chosen]
        line += ["--api-base", server.url]
        stop_when(start(*line, cwd=tmp_path), lambda: len(server.chat_requests) >= 5, signal.SIGKILL)
        server.plan = lambda: None
        without = [word for word in line if word not in chosen[2:4]]
        refused = longmemeval(*without, cwd=tmp_path, code=2).stderr
        longmemeval(*line, cwd=tmp_path)
        assert sent(server, "reasoning_effort") == {("low",)}
    assert "another recipe" in refused
    keys = ["--set", KEYS[0], "--set", KEYS[1]]
    answer = ["run", "-d", "colours.json", "-m", "bm25", *keys, "--model", "offline/extractive"]
    longmemeval(*answer, "--run-id", "r", cwd=tmp_path)
    assert "--expansion-model openai/my-gpt5,reasoning_effort=low" in manifest(folders)["prepare"]
    assert verify("r", folders=folders).problems == ()


def test_a_memory_calls_its_model_with_them_at_prepare_and_at_search(tmp_path: Path, folders: Folders) -> None:
    # Its client names its models as it was told them, and sends a limit of its own.
    (tmp_path / "client.py").write_text(PLAIN.replace('"messages": messages', '"messages": messages, "max_tokens": 50'))
    (tmp_path / "extracts.py").write_text(EXTRACTS)
    with ReasoningServer(lambda body: "It is green.") as server:
        chosen = ["--memory-model", "openai/my-gpt5,tier=flex", "--reasoning-effort", "low", "--temperature", "0.5"]
        line = ["prepare", "-d", "colours.json", "-m", MEMORY, "--jobs", "1", "--api-base", server.url]
        longmemeval(*line, *chosen, cwd=tmp_path)
        at_prepare = len(server.chat_requests)
        answer = ["run", "-d", "colours.json", "-m", MEMORY, "--model", "offline/extractive", "--api-base", server.url]
        longmemeval(*answer, "--run-id", "r", cwd=tmp_path)
        fields = ("model", "reasoning_effort", "temperature", "tier", "max_tokens")
        assert sent(server, *fields) == {("my-gpt5", "low", 0.5, "flex", 8242)}
        asked = len(server.chat_requests)
        assert asked > at_prepare == 6
        # In another preparation, the same calls are cached; without the options they are other calls.
        longmemeval(*line, *chosen, "--prepared", "again", cwd=tmp_path)
        assert len(server.chat_requests) == asked
        refused = longmemeval(*line, *chosen[:2], cwd=tmp_path, code=2).stderr
        server.spends[None] = 0
        longmemeval(*line, "--memory-model", "openai/my-gpt5", "--prepared", "plain", cwd=tmp_path)
        assert {request.body.get("max_tokens") for request in server.chat_requests[asked:]} == {50}
        assert {"model", "messages", "max_tokens"} == set(server.chat_requests[-1].body)
    assert "another recipe" in refused
    whole = "openai/my-gpt5,temperature=0.5,reasoning_effort=low,tier=flex"
    meta = json.loads((folders.prepared_dir / "colours/default/q0/meta.json").read_text())
    assert [part["recipe"]["memory_model"] for part in meta["parts"].values() if "service" in part["recipe"]] == [whole]
    assert f"--memory-model {whole}" in manifest(folders)["prepare"]
    assert verify("r", folders=folders).problems == ()


QUESTIONS = ["-m", "bm25", "--set", "decompose=model"]
QUERY = "openai/my-gpt5,reasoning_effort=low,tier=flex"


def test_a_question_model_has_its_own_and_like_repeats_them(tmp_path: Path, folders: Folders) -> None:
    longmemeval("prepare", "-d", "colours.json", *QUESTIONS, cwd=tmp_path)
    with ReasoningServer(lambda body: "[]") as server:
        reader = ["--model", "openai/reader", "--reasoning-effort", "high", "--api-base", server.url]
        line = ["run", "-d", "colours.json", *QUESTIONS, *reader, "--run-id", "r"]
        longmemeval(*line, "--query-model", QUERY, cwd=tmp_path)
        fields = ("model", "reasoning_effort", "tier")
        assert sent(server, *fields) == {("reader", "high", None), ("my-gpt5", "low", "flex")}
        refused = longmemeval(*line, "--query-model", "openai/my-gpt5", cwd=tmp_path, code=2).stderr
        asked = len(server.chat_requests)
        longmemeval("run", "--like", "r", "--run-id", "again", "--strict", cwd=tmp_path)
        # The analyses are those of the cache; the answers are asked for again.
        assert {request.body["model"] for request in server.chat_requests[asked:]} == {"reader"}
        # An answering model that also analyses questions does that without its options, as ever.
        longmemeval(*line[:-1], "own", cwd=tmp_path)
        assert sent(server, *fields) == {("reader", "high", None), ("reader", None, None), ("my-gpt5", "low", "flex")}
    assert "query_model" in refused
    assert manifest(folders)["settings"]["query_model"]["spec"] == QUERY
    assert manifest(folders, "again")["settings"] == manifest(folders)["settings"]
    assert manifest(folders, "own")["settings"]["query_model"]["spec"] == "openai/reader"


def test_question_models_of_retrieval_and_sweeps(tmp_path: Path, folders: Folders) -> None:
    longmemeval("prepare", "-d", "colours.json", *QUESTIONS, cwd=tmp_path)
    with ReasoningServer(lambda body: "[]") as server:
        line = ["retrieval", "-d", "colours.json", *QUESTIONS, "--api-base", server.url, "--query-model", QUERY]
        longmemeval(*line, "--run-id", "r", cwd=tmp_path)
        longmemeval(*line, "--run-id", "r", cwd=tmp_path)
        assert sent(server, "model", "reasoning_effort", "tier") == {("my-gpt5", "low", "flex")}
        models = [{"spec": "openai/reader", "api_base": server.url, "reasoning_effort": "high"}]
        memories = [
            {"preset": "bm25", "parameters": {"decompose": "model"}},
            {"preset": "bm25", "name": "keys", "parameters": dict(key.split("=") for key in KEYS)},
        ]
        made = {"expansion_model": "openai/maker", "reasoning_effort": "medium", "api_base": server.url}
        content: dict[str, Any] = {"name": "s", "dataset": "colours.json", "models": models, "memories": memories}
        content |= {"query_model": "openai/asker,reasoning_effort=low", "prepare": made, "judges": ["offline/lexical"]}
        (tmp_path / "s.yaml").write_text(json.dumps(content))
        longmemeval("sweep", "s.yaml", cwd=tmp_path)
        efforts = {"my-gpt5": "low", "reader": "high", "asker": "low", "maker": "medium"}
        assert sent(server, "model", "reasoning_effort") == set(efforts.items())
    assert manifest(folders)["settings"]["query_model"]["spec"] == QUERY


def test_a_batch_of_questions_has_those_of_the_question_model(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json", 2)
    memory = resolve_configuration("bm25", ["decompose=model"])
    prepare(dataset, [memory], options=PrepareOptions(jobs=1), folders=folders)
    with BatchServer(lambda body: "[]") as server:
        options = ModelOptions(server.url, max_attempts=2, max_wait_s=0.01, reasoning_effort="high")
        chosen = RunOptions(run_id="r", concurrency=1, model_options=options, batch=BATCH, query_model=QUERY)
        run(dataset, memory, "openai/local", options=chosen, folders=folders)
        first, second = ({line["body"].get("reasoning_effort") for line in server.lines(number)} for number in (0, 1))
    assert (first, second) == ({"low"}, {"high"})


def test_an_embedder_has_fields_of_its_requests(tmp_path: Path, folders: Folders) -> None:
    embedder, memory = "openai:my-emb,dimensions=5,user=me", ["-m", "semantic-recall"]
    with ModelServer() as server:
        url = server.url
        line = ["prepare", "-d", "colours.json", *memory, "--jobs", "1"]
        longmemeval(*line, "--embedder", embedder, cwd=tmp_path, OPENAI_BASE_URL=url)
        refused = longmemeval(
            *line, "--embedder", "openai:my-emb,dimensions=6", cwd=tmp_path, code=2, OPENAI_BASE_URL=url
        ).stderr
        # The run embeds the questions in the same way, since the fixtures name the embedder whole.
        answer = ["run", "-d", "colours.json", *memory, "--model", "offline/extractive", "--run-id", "r"]
        longmemeval(*answer, cwd=tmp_path, OPENAI_BASE_URL=url)
        bodies = [request.body for request in server.requests if request.path == "/v1/embeddings"]
        assert {(body["model"], body["dimensions"], body["user"]) for body in bodies} == {("my-emb", 5, "me")}
        embedded = manifest(folders)["settings"]["embedder"]
        assert embedded["spec"] == embedder
        assert embedded["fingerprint"] == f"{embedder}@{server.url}"
        longmemeval("run", "--like", "r", "--run-id", "again", "--strict", cwd=tmp_path, OPENAI_BASE_URL=url)
        longmemeval(*line, "--prepared", "plain", "--embedder", "openai:my-emb", cwd=tmp_path, OPENAI_BASE_URL=url)
        assert set(server.requests[-1].body) == {"input", "model", "encoding_format"}
    assert "another recipe" in refused
    meta = json.loads((folders.prepared_dir / "colours/plain/q0/meta.json").read_text())
    assert meta["parts"]["vector"]["recipe"]["embedder"] == f"openai:my-emb@{server.url}"


def test_a_memory_is_told_the_length_of_its_vectors() -> None:
    assert vector_length("text-embedding-3-large") == 3072
    assert vector_length("text-embedding-3-large,dimensions=256") == 256
    assert vector_length("unknown,user=me") is None


@pytest.mark.parametrize("field", ["input=x", "model=y", "temperature=0.5", "api_key=sk-1"])
def test_fields_of_an_embedder_that_are_refused(folders: Folders, field: str) -> None:
    dataset = load_dataset(folders.prepared_dir.parent / "colours.json")
    with pytest.raises(HarnessError, match=f"'{field.partition('=')[0]}'|secret"):
        prepare(dataset, ["semantic-recall"], options=PrepareOptions(embedder=f"openai:m,{field}"), folders=folders)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("openai/m,reasoning_efort=low", "Write 'reasoning_effort'"),
        ("openai/m,reasoning_effort=lots", "reasoning_effort"),
        ("openai/m,temperature=hot", "temperature"),
        ("openai/m,max_tokens=0", "max_tokens"),
        ("openai/m,messages=[]", "messages"),
        ("openai/m,api_key=sk-123456", "KEY=env:VARIABLE"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_call(folders: Folders, spec: str, told: str) -> None:
    with ModelServer() as server, pytest.raises(HarnessError, match=told) as caught:
        prepared(folders, server, "node_model", spec)
    assert "sk-123456" not in str(caught.value)
    assert not server.requests


def test_without_a_chat_model_they_are_refused(tmp_path: Path, folders: Folders) -> None:
    line = ["prepare", "-d", "colours.json", "-m", "typed-nodes", "--reasoning-effort", "low"]
    assert "No chat model is called" in longmemeval(*line, cwd=tmp_path, code=2).stderr
    assert not folders.prepared_dir.exists()


@pytest.mark.parametrize("verb", ["run", "evaluate"])
def test_the_options_of_reader_and_judge_do_not_follow_their_names(tmp_path: Path, folders: Folders, verb: str) -> None:
    longmemeval("prepare", "-d", "colours.json", "-m", "last-k", cwd=tmp_path)
    reader, judge = ("offline/extractive", "openai/m,reasoning_effort=low")
    answer = ["run", "-d", "colours.json", "-m", "last-k", "--run-id", "r", "--api-base", "http://127.0.0.1:9/v1"]
    told = longmemeval(*answer, "--model", judge if verb == "run" else reader, cwd=tmp_path, code=2 * (verb == "run"))
    if verb == "evaluate":
        told = longmemeval("evaluate", "r", "--judge", judge, cwd=tmp_path, code=2)
    assert "--reasoning-effort" in told.stderr


def test_names_and_options_are_read_and_written_alike() -> None:
    model, options = named('openai/m,reasoning-effort=low,seed=3,x={"a": [1,2]},tier=flex,temperature=0.5')
    assert model == "openai/m"
    assert options.recorded == {
        "temperature": 0.5,
        "seed": 3,
        "reasoning_effort": "low",
        "model_options": {"x": {"a": [1, 2]}, "tier": "flex"},
    }
    whole = with_options("openai/m,tier=flex,temperature=0.5", ModelOptions(temperature=1.0, model_seed=3))
    assert whole == "openai/m,temperature=0.5,model_seed=3,tier=flex"
    assert named(whole)[1] == named("openai/m,seed=3,tier=flex,temperature=0.5")[1]
    for spec in ("openai/m", "command:claude -p ,a=b", "offline/scripted:a,b=c"):
        assert (named(spec)[0], with_options(spec)) == (spec, spec)
