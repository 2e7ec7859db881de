"""What is embedded of a message and put before a question: kept in the fixtures, never mixed, never typed again."""

import json
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.datasets.base import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.prepare import PrepareOptions, prepare
from longmemeval.pipeline.prepared import PreparedFixtures
from longmemeval.pipeline.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.wording import EmbeddedText, Wording, wording_of
from longmemeval.records import Message, Role
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, colours, folders_in, manifest, painted_keys
from tests.server import ModelServer
from tests.support import longmemeval, tree


def message(thread: str, index: int, content: str, speaker: str = "") -> Message:
    role: Role = "assistant" if index % 2 else "user"
    return Message(f"{thread}:{index}", thread, role, speaker, content, datetime(2023, 5, 20, 2, 21), index)


HISTORY = [
    message("s", 0, "My cat is black.", "Ada"),
    message("s", 1, "Nice."),
    message("s", 2, " "),
    message("s", 3, "Bye."),
    message("t", 0, "Hello."),
]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("content", ["My cat is black.", "Nice.", "Bye.", "Hello."]),
        ("speaker", ["Ada: My cat is black.", "assistant: Nice.", "assistant: Bye.", "user: Hello."]),
        ("dated", [f"2023-05-20: {text}" for text in ("My cat is black.", "Nice.", "Bye.", "Hello.")]),
        ("neighbours", ["My cat is black.\nNice.", "My cat is black.\nNice.", "Bye.", "Hello."]),
    ],
)
def test_texts(kind: EmbeddedText, texts: list[str]) -> None:
    documents = Wording(kind).documents(HISTORY)
    assert [text for _, text in documents] == texts
    assert [one.message_id for one, _ in documents] == ["s:0", "s:1", "s:3", "t:0"]
    assert [text for _, text in Wording(kind, "q: ", "d: ").documents(HISTORY)] == [f"d: {text}" for text in texts]


def test_a_recipe_tells_the_wording() -> None:
    assert wording_of({"version": 1, "text": "content", "m": 16}) == Wording()
    assert wording_of({"text": "dated", "query_prefix": "q: "}) == Wording("dated", "q: ")
    assert Wording("dated", "q: ").prefixes == {"query_prefix": "q: "}


PREFIXED = PrepareOptions(query_prefix="query: ", document_prefix="passage: ", embedded_text="speaker")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "colours.json", 2)


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def recipe(where: Folders) -> dict[str, object]:
    meta = json.loads((where.prepared_dir / "colours/default/q1/meta.json").read_text())
    found: dict[str, object] = meta["parts"]["vector"]["recipe"]
    return found


def test_the_usual_recipe_is_what_it_always_was(dataset: Dataset, where: Folders) -> None:
    prepare(dataset, ["semantic-recall"], where=where)
    assert list(recipe(where).items()) == [
        ("version", 1),
        ("embedder", "hashing-v1:512"),
        ("index", "hnsw"),
        ("text", "content"),
        ("m", 16),
        ("ef_construction", 200),
        ("seed", 0),
    ]


def test_texts_go_out_with_their_prefix_and_questions_with_theirs(
    dataset: Dataset, where: Folders, server: ModelServer
) -> None:
    prepare(dataset, ["semantic-recall"], options=structs.replace(PREFIXED, embedder="openai:local"), where=where)
    sent = [text for request in server.requests for text in request.body["input"]]
    assert "passage: user: I painted my bicycle1 green today. Any tips?" in sent
    assert all(text.startswith(("passage: user: ", "passage: assistant: ")) for text in sent)
    assert len(sent) == 2 * 3 + 3
    answer_all(dataset, where, memory="semantic-recall")
    asked = [text for request in server.requests for text in request.body["input"]][len(sent) :]
    assert asked == ["query: What colour is my bicycle0?", "query: What colour is my bicycle1?"]
    assert manifest(where)["settings"]["embedder"]["query_prefix"] == "query: "
    retrieve(dataset, ["semantic-recall"], options=RetrievalOptions(run_id="s"), where=where)
    assert manifest(where, "s")["settings"]["embedder"] == manifest(where)["settings"]["embedder"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"embedded_text": "dated"}, "text: was 'speaker', now 'dated'"),
        ({"query_prefix": ""}, "query_prefix: was 'query: ', now None"),
        ({"document_prefix": "text: "}, "document_prefix: was 'passage: ', now 'text: '"),
    ],
)
def test_wordings_do_not_mix(dataset: Dataset, where: Folders, changes: dict[str, str], told: str) -> None:
    prepare(dataset, ["semantic-recall"], options=PREFIXED, where=where)
    before = tree(where.prepared_dir)
    with pytest.raises(FixtureError, match=told):
        prepare(dataset, ["semantic-recall"], options=structs.replace(PREFIXED, **changes), where=where)
    assert tree(where.prepared_dir) == before


def test_an_unknown_text_is_told_with_the_nearest(dataset: Dataset, where: Folders) -> None:
    wrong = structs.replace(PREFIXED, **{"embedded_text": "neighbors"})
    with pytest.raises(HarnessError, match="Did you mean 'neighbours'"):
        prepare(dataset, ["semantic-recall"], options=wrong, where=where)


def test_keys_get_the_prefix_too(dataset: Dataset, where: Folders, server: ModelServer) -> None:
    keyed = resolve_configuration("hybrid", ["expansion=keyphrase"])
    server.responder = painted_keys
    options = structs.replace(PREFIXED, embedder="openai:local", expansion_model="openai/local")
    prepare(dataset, [keyed], options=options, where=where)
    sent = [text for request in server.requests for text in request.body.get("input", ())]
    texts, keys = sent[:9], sent[9:]
    assert all(text.startswith(("passage: user: ", "passage: assistant: ")) for text in texts)
    assert any("bicycle0" in key for key in keys)
    assert all(key.startswith("passage: ") and "user: " not in key for key in keys)


def test_dry_run_counts_the_texts_that_would_be_sent(dataset: Dataset, where: Folders) -> None:
    dry = PrepareOptions(dry_run=True)
    plain = prepare(dataset, ["semantic-recall"], options=dry, where=where).estimate
    wide = prepare(
        dataset, ["semantic-recall"], options=structs.replace(dry, embedded_text="neighbours"), where=where
    ).estimate
    # Both turns of a session have each other around them: 3 sessions in each of 2 haystacks.
    assert (plain["distinct texts"], wide["distinct texts"]) == (9, 6)
    assert wide["tokens to embed"] > plain["tokens to embed"]


def test_the_remedy_for_a_missing_part_can_be_typed(dataset: Dataset, where: Folders, tmp_path: Path) -> None:
    folder = dataset.path.parent
    longmemeval(
        "prepare", "--dataset", "colours.json", "--memory", "semantic-recall", "--embedder", "hashing:64",
        "--index", "exact", "--embed-text", "dated", "--query-prefix", "query: ", "--document-prefix", "passage: ",
        cwd=folder,
    )  # fmt: skip
    dated = resolve_configuration("hybrid", ["time_range=boost"])
    fixtures = PreparedFixtures(dataset, "default", where, dated)
    with pytest.raises(FixtureError, match="lacks part 'dates'") as refused:
        fixtures.open("q1")
    words = shlex.split(refused.value.fix.split("`")[1])
    longmemeval(*words[1:], cwd=folder)
    assert fixtures.open("q1").meta.parts["vector"].recipe["text"] == "dated"
