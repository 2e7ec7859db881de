"""Key expansions from prepare to the ranking."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from longmemeval.datasets.registry import load_dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools, RankingMemory
from longmemeval.pipeline.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.prepared import PreparedFixtures
from longmemeval.pipeline.query_vectors import query_vectors
from longmemeval.pipeline.verify import verify
from longmemeval.settings import Folders
from tests.pipeline.helpers import colours, folders_in, painted_keys
from tests.server import ModelServer
from tests.support import longmemeval, record, tree, write_dataset

FACTS = ("expansion=fact", "expansion_level=turn")


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    write_dataset(tmp_path / "small.json", record())
    return Folders(prepared_dir=tmp_path / "prepared")


@pytest.fixture
def by_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrepareOptions]:
    """Options that have a chat model make the keys: the sentences about painting."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(painted_keys) as server:
        yield PrepareOptions(expansion_model="openai/gpt-4o-mini", api_base=server.url)


def bm25(*overrides: str) -> MemoryConfiguration:
    return resolve_configuration("bm25", overrides)


def ranking(where: Folders, configuration: MemoryConfiguration, text: str) -> list[str]:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    fixtures = PreparedFixtures(dataset, "default", where, configuration)
    fixture = fixtures.open("q1")
    vectors = query_vectors([], fixtures.embedder_of(list(dataset.questions())), None, None, where)
    memory = build_memory(configuration, MemoryTools(vectors))
    assert isinstance(memory, RankingMemory)
    (question,) = dataset.questions()
    asked = type(question)("q1", text, question.date, question.date_text, "q1")
    return [unit.unit_id for unit in memory.rank(asked, fixture)]


def test_the_part_is_added_to_what_is_there_and_kept_apart_by_recipe(where: Folders, by_model: PrepareOptions) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    prepare(dataset, ["bm25"], where=where)
    before = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl", "spending.jsonl"))
    report = prepare(dataset, [bm25(*FACTS)], options=by_model, where=where)
    after = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl", "spending.jsonl"))
    assert report.parts == ("db", "words", "expansions-fact-turn")
    assert {name: after[name] for name in before} == before
    (added,) = set(after) - set(before)
    part = json.loads(after[added])
    assert part["kind"] == "fact"
    assert [item["id"] for item in part["items"]] == [
        "filler_1:0", "filler_1:1", "answer_1:0", "answer_1:1", "filler_2:0", "filler_2:1"
    ]  # fmt: skip
    assert any("painted my bicycle green" in text for item in part["items"] for text in item["texts"])
    assert prepare(dataset, [bm25(*FACTS)], options=by_model, where=where).prepared == 0


@pytest.mark.parametrize("model", [None, "rules"])
def test_keys_want_a_chat_model_since_those_by_rules_are_gone(where: Folders, model: str | None) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    told = r"expansion=fact needs a chat model.*by rules were removed: on LoCoMo.*--expansion-model MODEL"
    for dry_run in (True, False):
        options = PrepareOptions(expansion_model=model, dry_run=dry_run)
        with pytest.raises(HarnessError, match=told):
            prepare(dataset, [bm25(*FACTS)], options=options, where=where)
    assert not where.prepared_dir.exists()


def test_keys_that_rules_made_are_still_read(where: Folders, by_model: PrepareOptions) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    prepare(dataset, [bm25(*FACTS)], options=by_model, where=where)
    meta = where.prepared_dir / "small" / "default" / "q1" / "meta.json"
    document = json.loads(meta.read_text())
    document["parts"]["expansions-fact-turn"]["recipe"] = {
        "maker": "rules", "version": 1, "kind": "fact", "level": "turn"
    }  # fmt: skip
    meta.write_text(json.dumps(document))
    assert ranking(where, bm25(*FACTS), "green bicycle")[0] == "answer_1:0"
    assert verify("small/default", where=where).problems == ()


def test_a_chat_model_makes_keys_by_which_a_turn_is_found(where: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")

    def respond(body: dict[str, object]) -> str:
        told = "bicycle" in str(body) and "egg" not in str(body)
        return json.dumps({"items": ["Velocipede is emerald"] if told else []})

    with ModelServer(respond) as server:
        options = PrepareOptions(expansion_model="openai/gpt-4o-mini", api_base=server.url)
        report = prepare(dataset, [bm25(*FACTS)], options=options, where=where)
        calls = len(server.chat_requests)
        assert report.usage.calls == calls == 3
        for request in server.chat_requests:
            assert "answer_" not in str(request.body)
        prepare(dataset, [bm25(*FACTS)], options=replace(options, force=True), where=where)
        assert len(server.chat_requests) == calls
    for join in ("merge", "replace", "separate"):
        configuration = bm25(*FACTS, f"expansion_join={join}", "statement_weight=0", "speaker_weight=0", "window=[]")
        assert ranking(where, configuration, "emerald velocipede")[0] == "answer_1:0"
        assert len(ranking(where, configuration, "emerald velocipede")) == 6


def test_keys_that_were_not_prepared_are_asked_for(where: Folders) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    prepare(dataset, ["bm25"], where=where)
    with pytest.raises(
        FixtureError, match=r"lacks part 'expansions-fact-turn'.*expansion=fact.*--expansion-model MODEL"
    ):
        ranking(where, bm25(*FACTS), "bicycle")


def test_keys_of_sessions_find_sessions_only(where: Folders, by_model: PrepareOptions) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    sessions = ("expansion=keyphrase", "expansion_level=session")
    prepare(dataset, [bm25(*sessions)], options=by_model, where=where)
    assert ranking(where, bm25(*sessions, "granularity=session"), "green bicycle")[0] == "answer_1"
    with pytest.raises(HarnessError, match="Set granularity=session"):
        ranking(where, bm25(*sessions), "green bicycle")


def test_on_the_command_line(where: Folders, by_model: PrepareOptions) -> None:
    folder = where.prepared_dir.parent
    asked = ("prepare", "--dataset", "small.json", "--memory", "bm25", "--set", "expansion=summary")
    refused = longmemeval(*asked, cwd=folder, code=2)
    assert "Name a chat model: --expansion-model MODEL" in " ".join(refused.stderr.split())
    longmemeval(*asked, "--expansion-model", "openai/gpt-4o-mini", "--api-base", str(by_model.api_base), cwd=folder)
    longmemeval(
        "run", "--dataset", "small.json", "--memory", "bm25", "--set", "expansion=summary",
        "--model", "offline/extractive", "--run-id", "r", cwd=folder,
    )  # fmt: skip
    parts = json.loads((folder / "results" / "r" / "run.json").read_text())["fixtures"]["q1"]
    assert set(parts) == {"db", "words", "expansions-summary-turn"}


DENSE = ("retriever=dense", "window=[]", "statement_weight=0", "speaker_weight=0")


def semantic(*overrides: str) -> MemoryConfiguration:
    return resolve_configuration("semantic-recall", [*FACTS, *DENSE, *overrides])


def emerald(body: dict[str, object]) -> str:
    """One key for the turn about the bicycle, in words that the history does not have."""
    return json.dumps({"items": ["Velocipede is emerald"] if "painted my bicycle" in str(body) else []})


@pytest.fixture
def keyed(where: Folders, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Fixtures whose one key a chat model made; neither its vector nor any other is there yet."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(emerald) as server:
        options = PrepareOptions(expansion_model="openai/gpt-4o-mini", api_base=server.url)
        prepare(load_dataset(where.prepared_dir.parent / "small.json"), [bm25(*FACTS)], options=options, where=where)
        yield server


def add(
    where: Folders, server: ModelServer, *configurations: MemoryConfiguration, force: bool = False
) -> PrepareReport:
    options = PrepareOptions(expansion_model="openai/gpt-4o-mini", api_base=server.url, force=force)
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    return prepare(dataset, configurations, options=options, where=where)


def test_keys_are_embedded_where_vectors_are_read(where: Folders, keyed: ModelServer) -> None:
    before = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl", "spending.jsonl"))
    report = add(where, keyed, semantic())
    after = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl", "spending.jsonl"))
    assert report.parts == ("db", "vector", "words", "expansions-fact-turn", "expansions-fact-turn-vectors")
    assert (report.prepared, report.messages) == (1, 6)
    assert {name: after[name] for name in before} == before
    part = json.loads(after["small/default/q1/expansions-fact-turn-vectors.json"])
    assert (part["index"]["name"], part["index"]["count"], part["graph"]) == ("keys", 1, None)
    assert part["items"] == [{"id": "answer_1:0#0", "thread_id": "answer_1", "index": 0}]
    meta = json.loads((where.prepared_dir / "small/default/q1/meta.json").read_text())
    recipe = meta["parts"]["expansions-fact-turn-vectors"]["recipe"]
    assert recipe["embedder"] == "hashing-v1:512"
    assert recipe["keys_sha256"] == meta["parts"]["expansions-fact-turn"]["sha256"]
    assert add(where, keyed, semantic(), resolve_configuration("hybrid", FACTS)).prepared == 0
    assert verify("small/default", where=where).problems == ()


def test_a_turn_is_near_by_its_key(where: Folders, keyed: ModelServer) -> None:
    add(where, keyed, semantic())
    for join in ("merge", "replace", "separate"):
        assert ranking(where, semantic(f"expansion_join={join}"), "emerald velocipede")[0] == "answer_1:0"
        hybrid = resolve_configuration("hybrid", [*FACTS, f"expansion_join={join}"])
        assert ranking(where, hybrid, "emerald velocipede")[0] == "answer_1:0"
    by_text = ranking(where, semantic("expansion_join=separate"), "I painted my bicycle green today.")
    assert by_text[0] == "answer_1:0"
    assert ranking(where, semantic("expansion_join=replace"), "bicycle paint today") != by_text


def test_keys_of_turns_serve_the_session_and_the_round_that_hold_them(where: Folders, keyed: ModelServer) -> None:
    add(where, keyed, semantic())
    for configuration in (bm25(*FACTS), semantic()):
        for granularity, unit in (("session", "answer_1"), ("round", "answer_1:0")):
            preset, given = configuration.preset, {**configuration.parameters, "granularity": granularity}
            found = ranking(where, MemoryConfiguration(name="x", preset=preset, parameters=given), "emerald velocipede")
            assert found[0] == unit


def test_lexical_search_needs_no_vectors_of_keys(where: Folders, keyed: ModelServer) -> None:
    assert ranking(where, bm25(*FACTS), "emerald velocipede")[0] == "answer_1:0"
    prepare(load_dataset(where.prepared_dir.parent / "small.json"), ["hybrid"], where=where)
    with pytest.raises(FixtureError, match=r"lacks part 'expansions-fact-turn-vectors'"):
        ranking(where, resolve_configuration("hybrid", FACTS), "bicycle")


def test_vectors_of_keys_that_were_made_again_are_refused_and_made_again(where: Folders, keyed: ModelServer) -> None:
    add(where, keyed, semantic())
    keyed.responder = lambda body: emerald(body).replace("emerald", "jade")
    (where.cache_dir / "replies.sqlite").unlink()
    add(where, keyed, bm25(*FACTS), force=True)
    with pytest.raises(FixtureError, match=r"was made of other keys.*--embedder hashing:512"):
        ranking(where, semantic(), "jade velocipede")
    assert add(where, keyed, semantic()).prepared == 1
    assert ranking(where, semantic(), "jade velocipede")[0] == "answer_1:0"
    assert add(where, keyed, semantic(), force=True).prepared == 1
    assert verify("small/default", where=where).problems == ()


def test_dry_run_counts_texts_of_keys_that_are_there_and_says_where_they_are_not(
    where: Folders, keyed: ModelServer
) -> None:
    dataset = load_dataset(where.prepared_dir.parent / "small.json")
    options = PrepareOptions(dry_run=True, expansion_model="openai/gpt-4o-mini", api_base=keyed.url)
    report = prepare(dataset, [semantic()], options=options, where=where)
    assert report.estimate["distinct texts"] == 6 + 1
    other = replace(options, name="other")
    figures = prepare(dataset, [semantic()], options=other, where=where).estimate
    assert figures["distinct texts"] == 6
    assert figures["haystacks whose keys are embedded too, not counted yet"] == 1


def test_several_fixtures_with_keys_of_their_own_are_one_preparation(tmp_path: Path, by_model: PrepareOptions) -> None:
    dataset, where = colours(tmp_path / "colours.json", 3), folders_in(tmp_path)
    prepare(dataset, [semantic()], options=replace(by_model, jobs=2, backend="threading"), where=where)
    fixtures = PreparedFixtures(dataset, "default", where, semantic())
    hashes = fixtures.hashes(list(dataset.questions()))
    assert len({parts["expansions-fact-turn-vectors"] for parts in hashes.values()}) == 3
    assert prepare(dataset, [semantic()], options=by_model, where=where).prepared == 0
    assert verify("colours/default", where=where).problems == ()
