"""Presets, YAML files and overrides: what they resolve to and how a mistake is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import (
    MEMORIES,
    MemoryConfiguration,
    analysis_of,
    as_configuration,
    build_memory,
    definition_of,
    given_parameters,
    parts_of,
    resolve_configuration,
)
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.questions import AnalysisMethod

RETRIEVAL: dict[str, Any] = {
    "granularity": "turn",
    "side": "both",
    "fusion": "scores",
    "dense_weight": 1.0,
    "window": [0.5, 0.25],
    "session_weight": 0.3,
    "speaker_weight": 0.2,
    "statement_weight": 0.5,
    "date_weight": 0.3,
    "statements": False,
    "length_exponent": 0.0,
    "expansion": None,
    "expansion_level": "turn",
    "expansion_join": "merge",
    "time_range": "off",
    "time_range_by": "rules",
    "time_margin_days": 2,
    "decompose": "off",
    "reranker": None,
    "rerank_depth": 50,
    "budget": None,
}
NODES = {
    "nodes": None,
    "entries": 15,
    "entry_share": 0.3,
    "entry_time": "filter",
    "entry_people": 0.2,
    "show_evidence": False,
}
ENGRAM: dict[str, Any] = {
    "facts": None,
    "fusion": "scores",
    "hops": 2,
    "recency_days": 30.0,
    "store": "embedded",
    "vectors": "embedded",
    "as_of": True,
}
ENGRAM_LEAN: dict[str, Any] = {
    "budget": 4000,
    "top_k": None,
    "sessions": None,
    "summaries": None,
    "newest_first": True,
    "abstain_below": 0.0,
}
SEMANTIC: dict[str, Any] = RETRIEVAL | {"retriever": "nearest", "scope": "resource"}


def written(folder: Path, text: str) -> str:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("none", {}),
        ("oracle", {}),
        ("full-history", {}),
        ("last-k", {"last_messages": 50}),
        ("semantic-recall", SEMANTIC | {"last_messages": 10, "top_k": 10, "message_range": 2}),
        ("rag", SEMANTIC | {"last_messages": 0, "top_k": 10, "message_range": 0}),
        (
            "rag-rerank",
            SEMANTIC
            | {"last_messages": 0, "top_k": 10, "message_range": 0, "retriever": "dense", "window": []}
            | {"speaker_weight": 0.0, "statement_weight": 0.0, "date_weight": 0.0}
            | {"reranker": "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"},
        ),
        ("simple-fast", SEMANTIC | {"last_messages": 0, "top_k": 42, "message_range": 0}),
        (
            "session-votes",
            SEMANTIC
            | {"last_messages": 0, "top_k": 5, "message_range": 0, "retriever": "hybrid", "granularity": "votes"},
        ),
        ("working-memory", {"last_messages": 10}),
        ("combined", SEMANTIC | {"last_messages": 20, "top_k": 5, "message_range": 1}),
        ("bm25", RETRIEVAL | {"last_messages": 10, "top_k": 10, "message_range": 2}),
        ("hybrid", RETRIEVAL | {"last_messages": 10, "top_k": 10, "message_range": 2}),
        (
            "observational",
            {"message_tokens": 30000, "reflect_tokens": 40000, "previous_tokens": 2000}
            | {"scope": "resource", "retriever": "none", "top_k": 50},
        ),
        ("typed-nodes", RETRIEVAL | NODES | {"last_messages": 0, "top_k": 10, "message_range": 0}),
        (
            "statements",
            RETRIEVAL
            | NODES
            | {"last_messages": 0, "top_k": 0, "message_range": 0, "entries": 25, "show_turns": False},
        ),
        ("engram-lean", ENGRAM | ENGRAM_LEAN),
        ("engram-full", ENGRAM),
    ],
)
def test_a_preset_is_written_out_with_its_documented_defaults(preset: str, parameters: dict[str, Any]) -> None:
    resolved = resolve_configuration(preset)
    assert (resolved.name, resolved.preset, resolved.parameters) == (preset, preset, parameters)


def test_what_is_written_in_python_is_completed_as_a_name_is() -> None:
    given = MemoryConfiguration(preset="bm25", parameters={"top_k": 7})
    assert given == resolve_configuration("bm25", ["top_k=7"])
    assert len(given.parameters) == len(RETRIEVAL) + 3
    assert MemoryConfiguration(preset="bm25") == resolve_configuration("bm25")
    assert MemoryConfiguration(name="mine", preset="bm25").name == "mine"
    with pytest.raises(HarnessError, match="'bm25' has no parameter 'top_kk'"):
        MemoryConfiguration(preset="bm25", parameters={"top_kk": 7})
    with pytest.raises(HarnessError, match="Unknown memory configuration 'bm52'"):
        MemoryConfiguration(preset="bm52")
    with pytest.raises(ValidationError):
        MemoryConfiguration.model_validate({"preset": "bm25", "parameters": 7})


def test_every_preset_has_documented_defaults() -> None:
    assert set(MEMORIES.built_in) == {
        "none", "oracle", "full-history", "last-k", "semantic-recall", "working-memory", "combined", "bm25", "hybrid",
        "typed-nodes", "files", "observational", "rag", "rag-rerank", "simple-fast", "session-votes",
        "statements", "engram-lean", "engram-full",
    }  # fmt: skip


def test_overrides_are_typed_and_the_last_one_counts() -> None:
    overrides = ["top_k=20", " scope = thread", "message_range=0", "top_k=7"]
    changed = {"last_messages": 10, "top_k": 7, "message_range": 0, "scope": "thread"}
    assert resolve_configuration("semantic-recall", overrides).parameters == SEMANTIC | changed


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("decompose=off", "off"),
        ("decompose=false", "off"),
        ("decompose=model", "model"),
        ("time_range=off", "off"),
    ],
)
def test_what_yaml_takes_for_a_truth_value_is_a_word_here(override: str, value: str) -> None:
    assert resolve_configuration("bm25", [override]).parameters[override.partition("=")[0]] == value


def test_ranking_retrievers_take_what_nearest_refuses() -> None:
    wanted = ["expansion=fact", "time_range=boost", "decompose=model", "reranker=fastembed:x"]
    for retriever in ("dense", "hybrid"):
        resolve_configuration("semantic-recall", [*wanted, f"retriever={retriever}"])
    with pytest.raises(HarnessError, match="expansion and time_range and decompose and reranker"):
        resolve_configuration("semantic-recall", wanted)


def test_parts_follow_from_the_parameters() -> None:
    def names(preset: str, *overrides: str) -> set[str]:
        return {part.name for part in parts_of(resolve_configuration(preset, overrides))}

    keys, vectors = "expansions-fact-turn", "expansions-fact-turn-vectors"
    assert names("none") == set()
    assert names("bm25", "expansion=fact") == {"db", "words", keys}
    ranked = {"db", "vector", "words"}
    assert names("hybrid", "expansion=fact") == ranked | {keys, vectors}
    assert names("hybrid", "time_range=boost") == ranked | {"dates"}
    assert names("semantic-recall") == {"db", "vector", "vector-graph"}
    assert names("semantic-recall", "retriever=dense") == ranked
    assert names("combined", "retriever=hybrid") == ranked | {"working-memory"}
    assert names("full-history") == {"db", "tokens"}


@pytest.mark.parametrize(
    ("overrides", "method"),
    [
        ([], AnalysisMethod()),
        (["decompose=model", "time_range=boost"], AnalysisMethod(parts="model", time="rules")),
        (["time_range_by=model"], AnalysisMethod()),
        (["time_range=filter", "time_range_by=model"], AnalysisMethod(time="model")),
    ],
)
def test_who_analyses_a_question(overrides: list[str], method: AnalysisMethod) -> None:
    assert analysis_of(resolve_configuration("bm25", overrides)) == method
    assert analysis_of(resolve_configuration("none")) == AnalysisMethod()


def test_options_that_are_short_for_parameters() -> None:
    assert given_parameters(reranker=None, budget=None) == []
    assert given_parameters(reranker="fastembed:x", budget=0) == ["reranker=fastembed:x", "budget=0"]


def test_yaml_file_with_overrides_on_top(tmp_path: Path) -> None:
    text = "preset: combined\nname: größer\nparameters:\n  top_k: 30\n  last_messages: 4\n"
    resolved = resolve_configuration(written(tmp_path, text), ["top_k=31"])
    assert (resolved.name, resolved.preset) == ("größer", "combined")
    assert resolved.parameters == SEMANTIC | {"last_messages": 4, "top_k": 31, "message_range": 1}


@pytest.mark.parametrize("text", ["preset: last-k\n", "preset: last-k\nname:\nparameters:\n"])
def test_yaml_file_is_named_after_its_preset_unless_it_says_otherwise(tmp_path: Path, text: str) -> None:
    assert resolve_configuration(written(tmp_path, text)) == resolve_configuration("last-k")


@pytest.mark.parametrize(
    ("preset", "override", "message"),
    [
        ("semantic-recal", "", r"Unknown memory configuration 'semantic-recal'\. Did you mean 'semantic-recall'\?"),
        ("combined.json", "", r"Unknown memory configuration 'combined.json'\. Did you mean 'combined'\?"),
        ("semantic-recall", "topk=3", r"no parameter 'topk'\. Did you mean 'top_k'\? Valid: budget, date_weight"),
        ("none", "top_k=3", r"'none' has no parameter 'top_k'\. Valid: none"),
        ("semantic-recall", "top_k=0", r"top_k = 0\. .*greater than or equal to 1"),
        ("last-k", "last_messages=-1", r"last_messages = -1\. .*greater than or equal to 0"),
        ("last-k", "last_messages=1.5", r"last_messages = 1.5\. .*valid integer"),
        ("last-k", "last_messages=many", r"last_messages = 'many'\. .*valid integer"),
        ("last-k", "last_messages=yes", r"last_messages = True\. .*valid integer"),
        ("last-k", "last_messages=", r"last_messages = None\. .*valid integer"),
        ("semantic-recall", "scope=threads", r"scope = 'threads'\. .*'resource' or 'thread'"),
        ("bm25", "decompose=maybe", r"decompose = 'maybe'\. .*'off' or 'model'"),
        (
            "bm25",
            "decompose=rules",
            r"decompose = 'rules'\. .*removed: it lowered recall.*83\.9 to 83\.6.*decompose=model",
        ),
        (
            "hybrid",
            "decompose=true",
            r"decompose = True\. .*removed: it lowered recall.*Set decompose=model, or leave it off",
        ),
        ("bm25", "time_range=on", r"time_range = True\. .*'off', 'boost' or 'filter'"),
        ("bm25", "time_range_by=hand", r"time_range_by = 'hand'\. .*'rules' or 'model'"),
        ("semantic-recall", "expansion=fact", r"ignore expansion: set retriever=hybrid \(or dense\) as well"),
        ("semantic-recall", "statements=true", r"ignore statements: set retriever=hybrid \(or dense\) as well"),
        ("combined", "length_exponent=0.05", r"ignore length_exponent: set retriever=hybrid"),
        ("hybrid", "length_exponent=-1", r"length_exponent = -1\. .*greater than or equal to 0"),
        ("combined", "reranker=fastembed:x", r"retriever = 'nearest'\. It would ignore reranker: set retriever="),
        ("rag", "granularity=votes", r"ignore granularity: set retriever=hybrid \(or dense\) as well"),
        ("statements", "reranker=fastembed:x", r"reranker = .*No messages are searched: set top_k=10 as well"),
        ("statements", "granularity=session", r"granularity = 'session'\. No messages are searched: set top_k="),
        ("statements", "message_range=2", r"message_range = 2\. No messages are searched: set top_k=10 as well"),
        ("last-k", "last_messages", "not of the form key=value"),
        ("last-k", "=3", "not of the form key=value"),
        ("last-k", "last_messages=[1", r"value in --set 'last_messages=\[1' cannot be read"),
        ("last-k", "last_messages=2023-99-99", "cannot be read"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(preset: str, override: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        resolve_configuration(preset, [override] if override else [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset: combind", r"Unknown memory configuration 'combind' .*Did you mean 'combined'\?"),
        ("preset: combined\nparameters: {topk: 3}", r"no parameter 'topk' .*Did you mean 'top_k'\?"),
        ("preset: combined\nparameters: {top_k: '3'}", r"top_k = '3' .*valid integer"),
        ("preset: combined\nparameters: {1: 2}", "should be strings"),
        ("preset: combined\nparameters: [top_k]", "must be a mapping"),
        ("preset: combined\nparametrs: {top_k: 3}", r"Unknown key 'parametrs' .*Did you mean 'parameters'\?"),
        ("preset: combined\n1: 2", "Unknown key '1'"),
        ("name: mine", "must hold `preset: NAME`"),
        ("preset: [combined]", "must hold `preset: NAME`"),
        ("- combined", "must hold `preset: NAME`"),
        ("", "must hold `preset: NAME`"),
        ("preset: combined: x", "is not YAML"),
        ("preset: combined\nname: 2023-13-01", "is not YAML"),
        ("preset: !!python/name:os.system", "is not YAML"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(HarnessError, match=message) as caught:
        resolve_configuration(file)
    line = 1 + text.partition("preset: combined\n")[1].count("\n")
    assert caught.value.where.split(": ")[0] in (file, f"{file}, line {line}")
    assert ("line" in caught.value.where) == ("must hold" not in message and "2023-13" not in text)


def test_unreadable_file_is_told(tmp_path: Path) -> None:
    missing, latin = str(tmp_path / "none.yml"), tmp_path / "latin.yaml"
    latin.write_bytes("preset: last-k\nname: gr\u00f6\u00dfer".encode("latin-1"))
    for file, message in ((missing, "cannot be read: No such file"), (str(latin), "is not YAML: it is not UTF-8")):
        with pytest.raises(HarnessError, match=message) as caught:
            resolve_configuration(file)
        assert caught.value.where == file


def test_a_configuration_stands_for_itself_and_a_name_for_its_preset() -> None:
    configuration = resolve_configuration("last-k", ["last_messages=3"])
    assert as_configuration(configuration) is configuration
    assert as_configuration("last-k") == resolve_configuration("last-k")
    assert definition_of(configuration) is MEMORIES.get("last-k")


@pytest.mark.parametrize(
    ("preset", "parameters", "message"),
    [("last", {}, "Did you mean 'last-k'"), ("last-k", {"last_message": 3}, "Did you mean 'last_messages'")],
)
def test_a_configuration_made_by_hand_is_checked_when_built(
    preset: str, parameters: dict[str, Any], message: str
) -> None:
    tools = MemoryTools(lambda text: np.zeros(1, np.float32))
    with pytest.raises(HarnessError, match=message):
        build_memory(MemoryConfiguration(name="x", preset=preset, parameters=parameters), tools)
