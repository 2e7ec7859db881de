"""Claims in files: those shipped are whole; a faulty one is refused with its place; other packages bring theirs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, catalogue
from longmemeval.errors import DataError, HarnessError
from longmemeval.memory.configuration import MEMORIES, configuration_of
from longmemeval.pipeline.claims.catalogue import CLAIM_FOLDERS, Claim, all_claims, claim_named, claims_in, claims_of
from longmemeval.pipeline.claims.state import chosen_claims, state_of
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.reading.options import ReadingOptions

CLAIMS = all_claims()
TRIED = [claim for claim in CLAIMS if claim.settings is not None]


def test_every_claim_says_where_it_is_from_and_how_it_is_tried_or_why_not() -> None:
    assert len(CLAIMS) >= 283
    for claim in CLAIMS:
        assert all((claim.system, claim.variant, claim.metric, claim.judge, claim.source.title)), claim.id
        assert bool(claim.cannot) is (claim.settings is None), claim.id
        assert claim.source.hand == "first" or not claim.source.cited.endswith(claim.source.title), claim.id


@pytest.mark.parametrize("claim", TRIED, ids=lambda claim: claim.id)
def test_the_settings_of_a_claim_are_settings_of_this_harness(claim: Claim) -> None:
    settings = claim.settings
    assert settings is not None
    assert settings.dataset in catalogue() or settings.get
    PrepareOptions(**settings.prepare)
    ReadingOptions(**settings.reading)
    MEMORIES.get(settings.memory).parameters.model_validate(settings.parameters)
    assert settings.measure or settings.model
    assert claim.by_group.keys() <= {*BENCHMARK_SPECS.get(claim.benchmark).types.order, "abstention"}


def test_a_claim_is_found_by_a_part_of_its_id() -> None:
    whole = TRIED[0].id
    assert claim_named(whole).id == whole
    with pytest.raises(HarnessError, match=r"claims are called 'paper'.*Name one of them"):
        claim_named("paper")
    with pytest.raises(HarnessError, match=f"Unknown claim '{whole}x'.*Did you mean '{whole}'"):
        claim_named(f"{whole}x")


ROW = {"id": "one", "system": "s", "value": 0.5}


def content(**changes: object) -> dict[str, Any]:
    base: dict[str, Any] = {
        "benchmark": "locomo",
        "source": {"title": "p", "hand": "first"},
        "variant": "v",
        "metric": "F1",
        "judge": "j",
        "settings": {"dataset": "locomo10", "memory": "bm25", "model": "offline/extractive"},
        "rows": [ROW],
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


def write(folder: Path, name: str = "mine.yaml", **changes: object) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(content(**changes)))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": [ROW | {"value": 50.0}]}, r"less than or equal to 1.*rows\[0\]\.value"),
        ({"rows": [ROW | {"by_group": {"x": -1.0}}]}, "greater than or equal to 0"),
        ({"rows": [ROW | {"value": None}]}, "no value and no parts.*row one|row one.*no value"),
        ({"rows": [ROW, ROW]}, "Two rows have the id 'one'"),
        ({"rows": []}, "at least 1 item"),
        ({"benchmark": "locomoco"}, r"Unknown benchmark 'locomoco'.*Did you mean 'locomo'"),
        ({"judge": None}, "has no judge"),
        ({"comment": "x"}, r"comment.*Valid"),
        ({"rows": [ROW | {"reder": "x"}]}, r"rows\[0\]\.reder.*Did you mean 'reader'"),
        ({"settings": None}, "neither `settings` nor `cannot`"),
        ({"settings": {"dataset": "d", "memory": "m", "modell": "x"}}, r"settings.*modell.*Did you mean 'model'"),
        ({"settings": {"dataset": "d", "memory": "m", "prompt_tokens": "many"}}, "prompt_tokens"),
        ({"source": {"title": "p", "hand": "second"}}, "'first' or 'third'"),
        ({"source": {"title": "p", "hand": "first", "date": "May 2026"}}, "date"),
        ({"rows": [ROW | {"source": {"urls": "x"}}]}, "row one: source.*urls.*Did you mean 'url'"),
        ({"rows": [ROW | {"product": "P"}]}, "a product and no `by`.*row one"),
        ({"benchmark": "other", "cannot": "not here", "rows": [ROW | {"cannot": ""}]}, "Unknown benchmark 'other'"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    (claim,) = claims_of(write(tmp_path))
    assert (claim.id, claim.value, claim.source.cited) == ("mine/one", 0.5, "p")
    with pytest.raises(DataError, match=said):
        claims_of(write(tmp_path, "faulty.yaml", **changes))


def test_what_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("rows: [")
    with pytest.raises(DataError, match=r"cannot be read.*x\.yaml"):
        claims_in(tmp_path)


def test_a_row_adds_to_the_file_and_overrules_it(tmp_path: Path) -> None:
    rows = [ROW | {"metric": "J", "settings": {"memory": "hybrid"}, "assumed": {"b": "2"}, "cannot": ""}]
    (claim,) = claims_of(write(tmp_path, rows=rows, assumed={"a": "1"}, cannot="no reason"))
    assert claim.settings is not None
    assert (claim.metric, claim.settings.memory, claim.settings.dataset) == ("J", "hybrid", "locomo10")
    assert claim.assumed == {"a": "1", "b": "2"}
    (other,) = claims_of(write(tmp_path, "other.yaml", cannot="no reason"))
    assert (other.settings, other.cannot) == (None, "no reason")


def test_figures_that_cannot_be_tried_may_be_on_a_benchmark_that_is_not_here(tmp_path: Path) -> None:
    (claim,) = claims_of(write(tmp_path, benchmark="elsewhere", cannot="It is not here."))
    assert (claim.benchmark, claim.cannot) == ("elsewhere", "It is not here.")
    assert {claim.benchmark for claim in chosen_claims("halumem", "")} == {"halumem"}
    with pytest.raises(HarnessError, match="halumen"):
        chosen_claims("halumen", "")


def test_a_row_may_have_a_source_of_its_own(tmp_path: Path) -> None:
    source = {"title": "their page", "hand": "third", "date": "2026-06", "through": "an excerpt"}
    rows = [ROW | {"source": source, "product": "P", "by": "maker", "context_tokens": 900}, ROW | {"id": "two"}]
    one, two = claims_of(write(tmp_path, rows=rows))
    assert (one.source.cited, one.source.date) == ("their page (third-hand: an excerpt)", "2026-06")
    assert (one.product, one.by, one.context_tokens) == ("P", "maker", 900)
    assert (two.source.cited, two.product, two.by, two.context_tokens) == ("p", "", "", None)


def test_other_packages_bring_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setattr(type(CLAIM_FOLDERS), "names", lambda self: [*self.built_in, "theirs"])
    CLAIM_FOLDERS.give("theirs", tmp_path)
    assert all_claims()[-1].id == "mine/one"


def test_the_state_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = {"dataset": "locomo10", "memory": "bm25", "model": "openai/gpt-4o", "judge": "lenient@openai/gpt-4o"}
    (claim,) = claims_of(write(tmp_path, settings=settings))
    state = state_of(claim, tmp_path)
    assert state.label == "needs data and a key"
    assert [need.name for need in state.needs] == ["locomo10", "OPENAI_API_KEY"]
    assert "datasets download locomo10" in state.needs[0].fix
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    assert state_of(claim, tmp_path, dataset="elsewhere.json").label == "ready"
    (offline,) = claims_of(write(tmp_path, "b.yaml"))
    assert state_of(offline, tmp_path, dataset="elsewhere.json").label == "ready"
    (parts,) = claims_of(write(tmp_path, "c.yaml", rows=[ROW | {"value": None, "by_group": {"x": 0.5}}]))
    assert state_of(parts, tmp_path).label == "cannot"


def test_a_product_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (claim,) = claims_of(write(tmp_path, settings={"dataset": "locomo10", "memory": "zep", "model": "offline/refuse"}))
    try:
        configuration_of("zep", {})
    except HarnessError:
        assert "the product" in state_of(claim, tmp_path).label
