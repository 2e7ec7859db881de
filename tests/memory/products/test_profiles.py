"""Profiles of products as data: what they set, what they leave as it was, and which histories stay valid."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, chosen_parameters, completed, parts_of
from longmemeval.memory.external.part import ServicePart
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.known import ADAPTERS, product_deviations, shipped_adapters
from longmemeval.records import DatasetIdentity, FixtureMeta, PartInfo

# What `source_sha256` of each adapter was in 0.2.0: histories that were paid for are found by it. Where the files of an
# adapter change and ingest the same by default, that goes into `same_as` of its profiles.toml.
PAID_FOR = {
    "chroma": "89e498ef123afbb660e0947641fe83e242d3d25a1abcf838528ae7030b12af64",
    "graphiti": "8ce0a43428bf8a29754cef58cc2170aa479b0ffcc18e56724e1476ba84666831",
    "hindsight": "520a33e8fbd1ca68a0c32f23a004b5c72b1de2f11b1909943c57171f8c5f9734",
    "honcho": "1e8c17ed3963f822dfc426344c05afa0398d54ccba94013085e07e51f7bb2962",
    "langmem": "08291e5230e6e6c665fff4672c555a4a805fd15048521404c0d6e27ff7f07e1b",
    "mcp": "535b5c6e7d4e99735287cc3306c46367ea6fd2800a2d1072fbf641ed9c8d501e",
    "mem0": "99f3c038745e08cf020ed50126fdbf4a77c0be35e997b632ce0c95506dde3c8e",
    "mem0-platform": "7bbea735a729a03241e377e43005ba4a525980e2559d37a2a41d428138c5359d",
    "mempalace": "eae7c3b619b5ace32fcde3856a584b40e6dc72f829807df7f3fbbff9c83338c3",
    "supermemory": "7c2fb7ef9a3e6cc1000cf01619668f986f5d078059a222e4b4e9fe370312fe5f",
    "zep": "bbb7f8ff4633429531f30f573bc703d234bd5b84e0858e156ce900daca055883",
}
HARNESS = {"limit", "budget"}


def part_of(memory: str, **parameters: Any) -> ServicePart:
    configuration = MemoryConfiguration(preset=memory, parameters=completed(memory, parameters))
    return next(part for part in parts_of(configuration) if isinstance(part, ServicePart))


@pytest.mark.parametrize("name", shipped_adapters())
def test_histories_of_0_2_0_stay_valid(name: str) -> None:
    assert ADAPTERS.get(name).origin["source_sha256"] == PAID_FOR[name]


@pytest.mark.parametrize("name", shipped_adapters())
def test_profiles_set_what_the_adapter_takes_and_say_whose_they_are(name: str) -> None:
    adapter = ADAPTERS.get(name)
    for profile in adapter.profiles.profiles.values():
        assert profile.source
        assert set(profile.settings) <= adapter.accepts | HARNESS
    assert set(adapter.profiles.search) <= adapter.accepts
    usual = adapter.profiles.profiles.get("ours")
    assert usual is None or not usual.settings, "ours is the adapter as it is"


def test_ours_is_recorded_as_before_and_others_with_all_they_set() -> None:
    usual = MemoryConfiguration(preset="graphiti", parameters=completed("graphiti", {}))
    assert usual.parameters == {"limit": 10, "budget": None}
    named = MemoryConfiguration(preset="graphiti", parameters=completed("graphiti", {"profile": "ours"}))
    assert named.parameters == usual.parameters
    assert part_of("graphiti", profile="ours").settings() == part_of("graphiti").settings()
    vendor = MemoryConfiguration(preset="graphiti", parameters=completed("graphiti", {"profile": "vendor", "nodes": 5}))
    told = {"as_of": False, "nodes": 5, "reranker": "cross_encoder", "limit": 40, "budget": None}
    assert vendor.parameters == {"profile": "vendor", **told}
    assert chosen_parameters(vendor) == {"profile": "vendor", "nodes": 5}


def test_a_budget_takes_the_place_of_a_profiles_number() -> None:
    assert completed("graphiti", {"profile": "vendor", "budget": 1000})["limit"] == 100
    assert completed("graphiti", {"profile": "vendor", "budget": 1000, "limit": 7})["limit"] == 7


@pytest.mark.parametrize(
    ("memory", "profile", "said"),
    [
        ("graphiti", "vendors", r"'graphiti' has no profile 'vendors'.*Did you mean 'vendor'"),
        ("langmem", "vendor", r"is not available.*publish no benchmark; use profile=product"),
        ("mcp:x.toml", "vendor", r"'mcp' has no profile 'vendor'.*profiles.toml"),
    ],
)
def test_a_profile_that_is_not_there(memory: str, profile: str, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        completed(memory, {"profile": profile})


def test_what_only_a_search_reads_is_not_in_what_is_ingested() -> None:
    plain, high = part_of("hindsight"), part_of("hindsight", effort="high", tokens=900)
    assert high.settings() == plain.settings()
    assert high.name == plain.name
    assert high.searched == {"effort": "high", "tokens": 900}
    assert part_of("hindsight", observations=True).name != plain.name


def test_a_history_that_was_named_by_a_search_is_still_found() -> None:
    """Before, `--set effort=high` was in the name and in the recipe of what was ingested."""
    now = part_of("hindsight", effort="low")
    recipe = {**now.settings(), "configuration": {"effort": "high"}, "memory_model": "openai/m"}
    info = PartInfo(sha256="0", recipe=recipe)
    other = PartInfo(sha256="1", recipe={**recipe, "configuration": {"per": "turn"}})
    meta = msgspec.structs.replace(empty(), parts={"hindsight-old": info, "hindsight-turn": other})
    assert now.stored_name(meta) == "hindsight-old"
    assert now.info(meta) == info
    assert now.comparable_recipe(recipe) == now.settings() | {"memory_model": "openai/m"}
    assert part_of("hindsight", observations=True).info(meta) is None
    assert part_of("hindsight", per="turn").info(meta) == other


def empty() -> FixtureMeta:
    return FixtureMeta(2, DatasetIdentity("d", "0"), "h", (), "r", (), {})


def test_deviations_are_one_line_from_the_profile_and_from_what_was_set() -> None:
    told = product_deviations("graphiti", {"limit": 10, "budget": None, "per": "session"})
    assert told[:3] == ("profile ours", "no reranker", "no node summaries")
    assert told[-2:] == ("per=session", "the best 10")
    vendor = completed("graphiti", {"profile": "vendor", "nodes": 5, "budget": 500})
    assert {"profile vendor", "nodes=5", "at most 500 tokens"} <= set(product_deviations("graphiti", vendor))
    assert product_deviations("bm25", {"budget": 500}) == ()


def test_profiles_that_are_wrong_are_told_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "adapter.toml").write_text(
        'summary = "s"\nclass = "C"\nrequirements = []\nmegabytes = 1\npage = "p"\n', encoding="utf-8"
    )
    adapter = Adapter.read(tmp_path, "mine")
    assert adapter.profiles.settings({}, "mine") == {}
    (tmp_path / "profiles.toml").write_text("[profiles.vendor]\nsettings = { a = 1 }\n")
    with pytest.raises(HarnessError, match="missing required field `source`"):
        _ = adapter.profiles
