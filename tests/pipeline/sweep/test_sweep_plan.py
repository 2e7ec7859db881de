"""A sweep's file becomes the runs it asks for, under names that stay; what is wrong in it is told with its place."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.pipeline.prepare.prepare import PrepareOptions
from longmemeval.pipeline.sweep.plan import SweepPlan, plan
from longmemeval.results.selection import Selection
from tests.support import ROOT

BASE: dict[str, Any] = {
    "name": "s",
    "dataset": "sample",
    "memories": ["last-k"],
    "models": ["offline/extractive"],
}


def planned(folder: Path, **changes: object) -> SweepPlan:
    """The plan of a small file after `changes`."""
    return plan(written(folder, yaml.safe_dump(BASE | changes, sort_keys=False)))


def written(folder: Path, text: str) -> Path:
    file = folder / "sweep.yaml"
    file.write_text(text)
    return file


def ids(of: SweepPlan) -> list[str]:
    return [run.run_id for run in of.runs]


def memories(of: SweepPlan) -> list[str]:
    return [configuration.name for configuration in of.configurations]


def test_least_file(tmp_path: Path) -> None:
    whole = planned(tmp_path)
    assert ids(whole) == ["s_last-k_offline-extractive_direct"]
    assert (whole.dataset, whole.selection, whole.prepare) == ("sample", Selection(), PrepareOptions())
    assert (whole.judges, whole.grading, whole.max_cost) == ((), EvaluateOptions(), None)
    assert (whole.grading.votes, whole.grading.concurrency) == (1, 8)
    (run,) = whole.runs
    assert run.configuration.parameters == {"last_messages": 50}
    assert (reading := run.options.reading)
    assert (reading.method, reading.max_tokens, run.options.repeat) == ("direct", 500, 1)


def test_controls_are_added_once_each(tmp_path: Path) -> None:
    models = ["offline/extractive", "offline/scripted:a"]
    whole = planned(tmp_path, memories=["oracle", "last-k"], models=models, readings=["direct", "con"], controls=True)
    without = planned(tmp_path, memories=["oracle", "last-k"], models=models, readings=["direct", "con"])
    assert ids(whole)[: len(without.runs)] == ids(without)
    added = [(run.configuration.name, run.model) for run in whole.runs[len(without.runs) :]]
    assert added == [
        ("none", "offline/extractive"),
        ("full-history", "offline/extractive"),
        ("none", "offline/scripted:a"),
        ("full-history", "offline/scripted:a"),
        ("none", "offline/refuse"),
        ("last-k", "offline/parrot"),
        ("full-history", "offline/last-session"),
    ]
    assert all(run.run_id.endswith("_direct") for run in whole.runs[len(without.runs) :])
    assert memories(whole) == ["oracle", "last-k", "none", "full-history"]


def test_every_field_arrives(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{history} {question_date} {question}")
    (tmp_path / "memory.yaml").write_text("preset: last-k\nname: few\nparameters: {last_messages: 3}\n")
    (tmp_path / "data.json").write_text("[]")
    whole = planned(
        tmp_path,
        dataset="data.json",
        selection={"sample": 5, "seed": 2},
        prepare={
            "embedder": "hashing:64",
            "index": "exact",
            "name": "p",
            "jobs": 1,
            "working_memory_template": "wm.md",
        },
        memories=["memory.yaml", {"preset": "memory.yaml", "name": "more", "parameters": {"last_messages": 9}}],
        models=[{"spec": "openai/x", "name": "x", "api_base": "http://here/v1", "timeout": 5, "max_attempts": 2}],
        readings=[{"method": "con", "template": "mine.txt", "max_tokens": 9, "on_overflow": "drop-oldest"}],
        judges=["offline/lexical", "openai/y"],
        votes=3,
        repeat=2,
        concurrency=4,
        max_cost=1,
        api_base="http://there/v1",
    )
    assert whole.dataset == tmp_path / "data.json"
    assert whole.selection == Selection(sample=5, seed=2)
    assert whole.prepare == PrepareOptions(
        embedder="hashing:64",
        index="exact",
        name="p",
        jobs=1,
        working_memory_template=tmp_path / "wm.md",
        api_base="http://there/v1",
    )
    assert [one.parameters["last_messages"] for one in whole.configurations] == [3, 9]
    assert memories(whole) == ["few", "more"]
    assert whole.runs[0].options.model_options == ModelOptions("http://here/v1", timeout_s=5, max_attempts=2)
    assert whole.grading == EvaluateOptions(votes=3, concurrency=4, model_options=ModelOptions("http://there/v1"))
    reading = whole.runs[0].options.reading
    assert reading is not None
    assert (reading.max_tokens, reading.options.on_overflow) == (9, "drop-oldest")
    assert reading.template.text == "{history} {question_date} {question}"
    assert (whole.judges, whole.max_cost) == (("offline/lexical", "openai/y"), 1)
    label = "con-template-mine-max_tokens-9-on_overflow-drop-oldest"
    assert sorted(ids(whole)) == sorted(f"s_{name}_x_{label}{end}" for name in ("few", "more") for end in ("", "_r2"))


def test_grid_becomes_its_product_under_readable_names(tmp_path: Path) -> None:
    grid = {"top_k": [5, 10], "message_range": [0, 2]}
    whole = planned(tmp_path, memories=[{"preset": "hybrid", "parameters": {"last_messages": 0}, "grid": grid}])
    assert memories(whole) == [
        "hybrid top_k=5 message_range=0",
        "hybrid top_k=5 message_range=2",
        "hybrid top_k=10 message_range=0",
        "hybrid top_k=10 message_range=2",
    ]
    assert ids(whole)[0] == "s_hybrid-top_k-5-message_range-0_offline-extractive_direct"
    parameters = [one.parameters for one in whole.configurations]
    assert [(one["top_k"], one["message_range"]) for one in parameters] == [(5, 0), (5, 2), (10, 0), (10, 2)]
    assert {one["last_messages"] for one in parameters} == {0}


def budgets(of: SweepPlan) -> dict[str, tuple[object, object]]:
    """Name to budget, and how many units it may hold."""
    return {one.name: (one.parameters.get("budget"), one.parameters.get("top_k")) for one in of.configurations}


def test_memories_have_the_budget_of_run_unless_one_is_asked_for(tmp_path: Path) -> None:
    both = ["bm25", "hybrid", "combined", "full-history"]
    for given in ({}, {"budget": False}):
        whole = planned(tmp_path, memories=both, **given)
        assert budgets(whole) == {
            "bm25": (None, 10),
            "hybrid": (None, 10),
            "combined": (None, 5),
            "full-history": (None, None),
        }
        assert whole.budget == ""
        assert list(whole.configurations) == list(map(resolve_configuration, both)), "as under `run`"


def test_a_budget_applies_to_all_that_take_one_and_the_plan_says_to_whom_not(tmp_path: Path) -> None:
    chosen = {"preset": "bm25", "name": "ten", "grid": {"top_k": [10, 20]}}
    whole = planned(tmp_path, memories=["bm25", "hybrid", "full-history", chosen], budget=1000)
    assert budgets(whole) == {
        "bm25 budget=1000": (1000, 100),
        "hybrid budget=1000": (1000, 100),
        "full-history": (None, None),
        "ten top_k=10": (None, 10),
        "ten top_k=20": (None, 20),
    }
    assert whole.budget == (
        "Token budget per recall: 1,000. It does not apply to full-history (takes none); ten top_k=10, ten top_k=20 "
        "(top_k of its own)."
    )
    assert planned(tmp_path, memories=["bm25", "hybrid"], budget=1000).budget.endswith("It applies to all memories.")
    five = {"preset": "statements", "name": "five", "parameters": {"entries": 5}}
    assert "five (entries of its own)" in planned(tmp_path, memories=["statements", five], budget=1000).budget


def test_each_listed_embedder_has_a_preparation_and_memories_without_vectors_have_one_run(tmp_path: Path) -> None:
    listed = ["hashing:64", {"spec": "hashing:256", "name": "wide", "query_prefix": "query: "}]
    whole = planned(tmp_path, memories=["bm25", "hybrid"], prepare={"embedder": listed, "index": "exact"})
    assert ids(whole) == [
        "s_bm25_offline-extractive_direct",
        "s_hybrid_hashing-64_offline-extractive_direct",
        "s_hybrid_wide_offline-extractive_direct",
    ]
    assert [
        (options.name, options.embedder, options.query_prefix, options.index, [one.name for one in configurations])
        for options, configurations in whole.preparations
    ] == [
        ("default", "hashing:64", "", "exact", ["bm25"]),
        ("hashing-64", "hashing:64", "", "exact", ["hybrid"]),
        ("wide", "hashing:256", "query: ", "exact", ["hybrid"]),
    ]
    assert [(run.options.prepared, run.options.embedder) for run in whole.runs] == [
        ("default", "hashing:64"),
        ("hashing-64", "hashing:64"),
        ("wide", "hashing:256"),
    ]
    assert list(whole.names.values()) == ["bm25", "hybrid, hashing:64", "hybrid, hashing:256"]
    before = ids(planned(tmp_path, memories=["bm25", "hybrid"], prepare={"embedder": listed[:1]}))
    assert set(before) < set(ids(whole)), "ids stay when an embedder is added"
    assert ids(planned(tmp_path, memories=["hybrid"], prepare={"embedder": "hashing:64"})) == [
        "s_hybrid_offline-extractive_direct"
    ]


def test_prepare_reaches_its_models_where_it_says_and_so_do_questions(tmp_path: Path) -> None:
    models = [{"spec": "openai/x", "api_base": "http://chat/v1", "timeout": 7}]
    (run,) = planned(tmp_path, models=models, prepare={"api_base": "http://vectors/v1"}).runs
    assert run.options.model_options.api_base == "http://chat/v1"
    assert run.options.prepare_options
    assert (run.options.prepare_options.api_base, run.options.prepare_options.timeout_s) == ("http://vectors/v1", 7)


def test_planned_runs_are_named_by_what_differs(tmp_path: Path) -> None:
    whole = planned(
        tmp_path,
        memories=[{"preset": "hybrid", "parameters": {"last_messages": 0}, "grid": {"top_k": [5, 10]}}, "none"],
        readings=["direct", "con"],
        repeat=2,
    )
    assert list(whole.names.values()) == [
        "hybrid top_k=5, direct",
        "hybrid top_k=5, con",
        "hybrid top_k=10, direct",
        "hybrid top_k=10, con",
        "none, direct",
        "none, con",
        "hybrid top_k=5, direct (repeat 2)",
        "hybrid top_k=5, con (repeat 2)",
        "hybrid top_k=10, direct (repeat 2)",
        "hybrid top_k=10, con (repeat 2)",
        "none, direct (repeat 2)",
        "none, con (repeat 2)",
    ]


def test_every_run_knows_the_entries_it_is_made_of(tmp_path: Path) -> None:
    whole = plan(written(tmp_path, GOOD))
    file = tmp_path / "sweep.yaml"
    entries = whole.entries[ids(whole)[1]]
    assert entries.to_check("memory") == f"{file}, line 5: memories[1] (preset, parameters)"
    assert entries.to_check("model") == f"{file}, line 9: models[0] (spec, api_base, timeout, max_attempts)"
    assert entries.to_check("reading").startswith(f"{file}, line 11: readings[0] (")
    assert entries.to_check("embedder") == f"{file}, line 12: prepare (embedder, api_base)"
    assert entries.to_check("judge", "offline/lexical").startswith(f"{file}, line 16: judges[0] (")


def test_several_budgets_are_a_configuration_each(tmp_path: Path) -> None:
    whole = planned(tmp_path, memories=["bm25", "full-history"], budget=[500, 4000])
    assert budgets(whole) == {
        "bm25 budget=500": (500, 50),
        "bm25 budget=4000": (4000, 400),
        "full-history": (None, None),
    }
    assert "s_bm25-budget-500_offline-extractive_direct" in ids(whole)


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("expansion", "[null, fact]", ["x expansion=none", "x expansion=fact"]),
        ("time_range", "[off, boost]", ["x time_range=off", "x time_range=boost"]),
        ("window", "[[], [0.5, 0.25]]", ["x window=none", "x window=0.5,0.25"]),
        ("decompose", "[model, false]", ["x decompose=model", "x decompose=off"]),
    ],
)
def test_values_of_a_grid_are_named_by_what_they_mean(tmp_path: Path, key: str, values: str, names: list[str]) -> None:
    text = yaml.safe_dump(BASE | {"memories": []}).replace(
        "memories: []", f"memories:\n- preset: bm25\n  name: x\n  grid:\n    {key}: {values}"
    )
    assert memories(plan(written(tmp_path, text))) == names


def test_ids_stay_when_entries_are_added(tmp_path: Path) -> None:
    grid = {"top_k": [5]}
    before = ids(planned(tmp_path, memories=["last-k", {"preset": "bm25", "grid": grid}]))
    after = planned(
        tmp_path,
        memories=["none", {"preset": "bm25", "grid": {"top_k": [3, 5]}}, "last-k"],
        models=["openai/x", "offline/extractive"],
        readings=["con", "direct"],
        judges=["offline/lexical"],
        repeat=3,
    )
    assert set(before) < set(ids(after))
    assert len(set(ids(after))) == len(after.runs) == 4 * 2 * 2 * 3


def test_repeats_come_after_everything_was_run_once(tmp_path: Path) -> None:
    whole = planned(tmp_path, memories=["none", "last-k"], readings=["direct", "con"], repeat=2)
    assert [run.options.repeat for run in whole.runs] == [1] * 4 + [2] * 4
    assert [run_id.removesuffix("_r2") for run_id in ids(whole)[4:]] == ids(whole)[:4]


def test_long_and_foreign_names_give_valid_ids(tmp_path: Path) -> None:
    long = [{"preset": "last-k", "name": "n" * 150 + end} for end in "ab"]
    foreign = [{"preset": "last-k", "name": name} for name in ("Gedächtnis", "記憶", "対話", "../x", ".")]
    whole = planned(tmp_path, memories=[*long, *foreign])
    assert len(set(ids(whole))) == 7
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}", run_id) for run_id in ids(whole))
    assert "Ged-chtnis" in ids(whole)[2]


def test_shipped_example_is_four_configurations_read_in_two_ways() -> None:
    whole = plan(ROOT / "examples" / "sweep.yaml")
    assert (len(whole.configurations), len(whole.runs)) == (4, 8)
    assert whole.dataset == "sample"


def test_shipped_example_of_memories_gives_each_that_takes_one_the_same_budget() -> None:
    whole = plan(ROOT / "examples" / "memories.yaml")
    assert len(whole.runs) == len(whole.configurations) >= 10
    budgets = {one.preset: one.parameters.get("budget") for one in whole.configurations}
    without = {"full-history", "last-k", "working-memory", "observational"}
    assert budgets == {preset: None if preset in without else 1500 for preset in budgets}


def test_example_of_the_docs_is_what_they_say(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sweep.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.yaml").write_text("preset: last-k\nname: mine\n")
    whole = plan(written(tmp_path, example))
    assert len(whole.runs) == 72
    listed = re.findall(r"^    (reading_\S+)$", page, re.MULTILINE)
    assert len(listed) == 3
    assert set(listed) < set(ids(whole))


GOOD = """\
name: s
dataset: sample
memories:
  - last-k
  - preset: bm25
    parameters: {last_messages: 0}
    grid:
      top_k: [5, 10]
models: [offline/extractive]
readings:
  - method: direct
prepare:
  index: exact
selection:
  limit: 3
judges: [offline/lexical]
votes: 1
"""

WRONG: dict[str, tuple[str, str, list[str]]] = {
    "unknown field": ("votes: 1", "vote: 1", ["line 17: vote", "Unknown field 'vote'", "Did you mean 'votes'?"]),
    "unknown field inside": ("  index: exact", "  indx: exact", ["line 13: prepare.indx", "Did you mean 'index'?"]),
    "unknown field of an entry": (
        "    parameters: {",
        "    parameter: {",
        ["line 6: memories[1].parameter", "Did you mean 'parameters'?"],
    ),
    "missing field": ("name: s\n", "", ["line 1: name", "'name' is missing"]),
    "missing field of an entry": (
        "  - method: direct",
        "  - max_tokens: 9",
        ["line 11: readings[0].method", "missing"],
    ),
    "no such word": ("  - method: direct", "  - dierct", ["line 11: readings[0]", "Did you mean 'direct'?"]),
    "no such index": ("  index: exact", "  index: exat", ["line 13: prepare.index", "Did you mean 'exact'?"]),
    "list of embedders": ("  index: exact", "  embedder: []", ["line 13: prepare.embedder", "at least 1 item"]),
    "field of an embedder": (
        "  index: exact",
        "  embedder: [{spec: hashing, prefix: x}]",
        ["line 13: prepare.embedder[0].prefix", "Did you mean 'query_prefix'?", "Valid: api_base, document_prefix, "],
    ),
    "number for an embedder": ("  index: exact", "  embedder: [3]", ["line 13: prepare.embedder[0]", "a name"]),
    "words for a number": ("  limit: 3", "  limit: three", ["line 15: selection.limit", "integer"]),
    "text for a number": ("votes: 1", 'votes: "1"', ["line 17: votes", "integer"]),
    "zero": ("votes: 1", "votes: 0", ["line 17: votes", "greater than or equal to 1"]),
    "negative money": ("votes: 1", "max_cost: -1", ["line 17: max_cost", "greater than or equal to 0"]),
    "number for a list": ("models: [offline/extractive]", "models: 3", ["line 9: models", "list"]),
    "empty list": ("models: [offline/extractive]", "models: []", ["line 9: models", "at least 1 item"]),
    "number for an entry": (
        "models: [offline/extractive]",
        "models: [4]",
        ["line 9: models[0]", "a name, or a mapping of fields"],
    ),
    "empty grid": ("top_k: [5, 10]", "top_k: []", ["line 8: memories[1].grid.top_k", "at least 1 item"]),
    "value for a grid": ("top_k: [5, 10]", "top_k: 5", ["line 8: memories[1].grid.top_k", "list"]),
    "name with a slash": ("name: s\n", "name: a/b\n", ["line 1: name", "letters, digits and . _ + -"]),
    "field of a section": ("votes: 1", "sample: 5", ["line 17: sample", "Write it under `selection`"]),
    "unknown preset": ("  - last-k", "  - last-m", ["line 4: memories[0]", "Did you mean 'last-k'?"]),
    "unknown parameter": (
        "last_messages: 0",
        "last_mesages: 0",
        ["line 5: memories[1]", "Did you mean 'last_messages'"],
    ),
    "bad value": ("top_k: [5, 10]", "top_k: [5, ten]", ["line 5: memories[1]", "top_k = 'ten'"]),
    "unknown parameter of a grid": ("top_k: [5, 10]", "top: [5]", ["line 5: memories[1]", "no parameter 'top'"]),
    "parameter and grid": ("last_messages: 0", "top_k: 1", ["line 5: memories[1]", "in parameters and in grid"]),
    "absent memory file": ("  - last-k", "  - gone.yaml", ["line 4: memories[0]", "gone.yaml", "cannot be read"]),
    "absent template": (
        "  - method: direct",
        "  - {method: direct, template: no.txt}",
        ["line 11: readings[0]", "no.txt"],
    ),
    "two ways to select": ("  limit: 3", "  limit: 3\n  sample: 2", ["line 14: selection", "cannot be combined"]),
    "entry twice": (
        "  - last-k",
        "  - last-k\n  - last-k",
        ["s_last-k_offline-extractive_direct", "`name` of its own"],
    ),
    "value of a grid twice": ("top_k: [5, 10]", "top_k: [5, 5]", ["s_bm25-top_k-5_offline-extractive_direct"]),
    "key twice": ("votes: 1", "votes: 1\nname: t", ["line 18", "'name' occurs twice"]),
    "key of an entry twice": (
        "top_k: [5, 10]",
        "top_k: [5]\n      top_k: [6]",
        ["line 9", "'top_k' occurs twice"],
    ),
    "not YAML": ("votes: 1", "votes: [1", ["not YAML", "line"]),
    "a list": (GOOD, "- a\n- b\n", ["must be a mapping"]),
    "nothing": (GOOD, "", ["must be a mapping"]),
    "no date": ("votes: 1", "votes: 2023-13-01", ["not YAML", "month"]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_file_is_told_with_its_place(tmp_path: Path, fault: str) -> None:
    old, new, told = WRONG[fault]
    assert GOOD.count(old) == 1
    with pytest.raises(HarnessError) as error:
        plan(written(tmp_path, GOOD.replace(old, new)))
    assert [part for part in ["sweep.yaml", *told] if part not in str(error.value)] == [], str(error.value)


def test_the_good_file_of_these_faults_is_good(tmp_path: Path) -> None:
    assert len(plan(written(tmp_path, GOOD)).runs) == 3


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"cannot be read: No such file"):
        plan(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes("name: Gedächtnis".encode("latin-1"))
    with pytest.raises(HarnessError, match="not YAML"):
        plan(tmp_path / "latin.yaml")
