"""Every shipped claim can be shown, and its cost seen before anything is called; or it says what to get first."""

from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.api.claims import Changes, ClaimTrial
from longmemeval.errors import HarnessError
from longmemeval.pipeline.claims.catalogue import Claim, all_claims
from longmemeval.pipeline.claims.state import models_of, state_of
from longmemeval.pipeline.run.estimate import RunEstimate
from longmemeval.report.tables.claims import ceiling_lines, claim_lines
from longmemeval.settings import Folders
from tests.conftest import real_file
from tests.pipeline.helpers import folders_in

OTHER_DATA = {"longmemeval": "sample", "beam-100k": "beam", "locomo-plus": "locomo_plus.json"}
"""What stands for data, or that of a benchmark, that is not here."""


def different() -> dict[str, Claim]:
    """A claim of each setting: several measures of one ranking are one dry run."""
    found: dict[str, Claim] = {}
    for claim in all_claims():
        if claim.settings is not None and claim.value is not None:
            found.setdefault(repr(claim.settings.model_dump(exclude={"measure"})), claim)
    return found


@pytest.mark.slow
def test_every_claim_is_shown_line_by_line(tmp_path: Path) -> None:
    for claim in all_claims():
        lines = [line for line in claim_lines(claim, state_of(claim, tmp_path)) if isinstance(line, str)]
        assert lines[0].startswith(f"{claim.id}: {claim.system}"), claim.id
        assert any(line.startswith("To try it: ") for line in lines), claim.id


@pytest.mark.parametrize(
    ("benchmark", "value", "n", "audits"),
    [
        ("longmemeval", 0.99, 500, ["reme"]),
        ("longmemeval", 0.995, None, ["reme", "issues"]),
        ("longmemeval", 0.974, 500, []),
        ("longmemeval", 1.0, 102, []),
        ("locomo", 0.947, 1540, ["locomo-audit"]),
        ("locomo", 0.9236, 1540, []),
    ],
)
def test_a_claim_above_the_ceiling_of_an_audit_says_so(
    benchmark: str, value: float, n: int | None, audits: list[str]
) -> None:
    claim = next(claim for claim in all_claims() if claim.benchmark == benchmark and not claim.is_about_retrieval)
    lines = list(ceiling_lines(structs.replace(claim, value=value, n=n)))
    assert [line.partition("by audit ")[2].partition(",")[0] for line in lines] == audits
    assert all("93.6%" in line or "97.4%" in line or "99.2%" in line for line in lines)


def estimated(claim: Claim, changes: Changes, folders: Folders) -> RunEstimate | HarnessError:
    """What a dry run shows, or the reason why it cannot."""
    try:
        return ClaimTrial(claim, changes, folders=folders).estimate()
    except HarnessError as error:
        return error


@pytest.mark.thorough
@pytest.mark.parametrize("claim", different().values(), ids=lambda claim: claim.id)
def test_a_dry_run_says_what_it_costs(claim: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one question of real data, or of the sample; without a product or the authors' files it says the command."""
    assert claim.settings is not None
    for variable in [need.name for need in state_of(claim, tmp_path).needs if need.what == "a key"]:
        monkeypatch.setenv(variable, "sk-none")
    made = folders_in(tmp_path)
    data = real_file("locomo10.json").parent
    folders = Folders(data_dir=data, prepared_dir=made.prepared_dir, results_dir=made.results_dir)
    lacks = {need.what for need in state_of(claim, folders.data_dir).needs}
    other = OTHER_DATA.get(claim.settings.dataset, OTHER_DATA.get(claim.benchmark)) if "data" in lacks else None
    dataset = folders.data_dir / other if other and other != "sample" else other
    estimate = estimated(claim, Changes(sample=1, dataset=dataset), folders)
    if isinstance(estimate, HarnessError):
        assert "the product" in lacks or lacks == {"data"} or claim.settings.protocol == "official", estimate
        assert any(command in str(estimate) for command in ("memory install", "datasets download", "Put ")), estimate
        return
    assert not any("not known" in note for note in estimate.notes), estimate.notes
    stages = [*estimate.stages, *(estimate.preparation.stages if estimate.preparation else ())]
    told = " ".join(f"{one.name} {one.work.model}" for one in stages)
    for model in models_of(claim.settings):
        assert model in told or f"openai:{model.removeprefix('openai/')}" in told, (model, told)
