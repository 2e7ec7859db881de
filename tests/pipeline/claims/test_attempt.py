"""Trying claims offline: of answers, rankings and groups; deviations, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.api.claims import Changes, ClaimTrial, try_claim
from longmemeval.errors import HarnessError
from longmemeval.pipeline.claims.catalogue import Claim, claims_of
from longmemeval.report.tables.claims import attempt_lines
from longmemeval.settings import Folders
from tests.pipeline.claims.test_catalogue import ROW, write
from tests.pipeline.helpers import folders_in
from tests.support import longmemeval

SETTINGS = {"dataset": "sample", "memory": "bm25", "model": "offline/extractive", "judge": "offline/lexical"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared folder of tests whose claims need the same preparation of the sample; the first of them makes it."""
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def folders(tmp_path: Path, prepared: Path) -> Folders:
    return folders_in(tmp_path).model_copy(update={"prepared_dir": prepared})


def planted(folder: Path, value: float, n: int | None = None, **changes: Any) -> Claim:
    """A claim on the shipped sample."""
    rows = [ROW | {"value": value}]
    settings = SETTINGS | changes
    (claim,) = claims_of(write(folder, benchmark="longmemeval", rows=rows, settings=settings, n=n, metric="accuracy"))
    return claim


@pytest.mark.slow
def test_a_planted_wrong_claim_is_not_reproduced_and_a_right_one_is_the_same(tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    wrong = try_claim(planted(tmp_path, 0.1), folders=folders)
    assert wrong.verdict.finding == "not reproduced"
    assert "points higher [" in wrong.verdict.text
    right = try_claim(planted(tmp_path, wrong.verdict.measured.value, n=wrong.verdict.measured.n), folders=folders)
    # The run is the same: made once, graded once.
    assert right.run == wrong.run
    assert right.verdict.text == "consistent: the same figure"
    assert right.deviations == ()


@pytest.mark.slow
def test_a_small_sample_tells_nothing(tmp_path: Path, folders: Folders) -> None:
    tried = try_claim(planted(tmp_path, 0.5, n=500), sample=8, folders=folders)
    assert tried.verdict.finding == "cannot be told"
    assert tried.verdict.needed is not None
    assert tried.verdict.needed > 8
    assert tried.deviations == ("questions: claimed 500, here 8",)


@pytest.mark.slow
def test_another_model_judge_and_data_are_deviations(tmp_path: Path, folders: Folders) -> None:
    (claim,) = claims_of(
        write(
            tmp_path,
            benchmark="longmemeval",
            settings=SETTINGS | {"model": "openai/gpt-4o", "judge": "openai/gpt-4o"},
            catalogue=["longmemeval_s"],
            assumed={"temperature": "0"},
            deviations=["our prompt"],
        )
    )
    tried = try_claim(claim, model="offline/refuse", judge="offline/lexical", folders=folders)
    assert tried.deviations == (
        "data: claimed longmemeval_s, here sample",
        "judge: claimed openai/gpt-4o, here offline/lexical",
        "model: claimed openai/gpt-4o, here offline/refuse",
        "our prompt",
    )
    assert tried.assumed == ("temperature: 0",)


@pytest.mark.slow
def test_a_claim_about_what_is_found_needs_no_model(tmp_path: Path, folders: Folders) -> None:
    settings = {"dataset": "sample", "memory": "bm25", "measure": "recall_any@5", "granularity": "session"}
    (claim,) = claims_of(write(tmp_path, benchmark="longmemeval", settings=settings))
    trial = ClaimTrial(claim, folders=folders)
    first = trial.attempt()
    assert first.verdict.measured.value > 0.5
    assert trial.attempt() == first


@pytest.mark.slow
@pytest.mark.parametrize("of_rankings", [False, True])
def test_groups_have_verdicts_of_their_own(of_rankings: bool, tmp_path: Path, folders: Folders) -> None:
    """The whole first; a planted wrong group is found, one that nobody asks is named."""
    rankings: dict[str, Any] = {"measure": "recall_any@5", "granularity": "session", "model": "", "judge": ""}
    groups = {"multi-session": 0.0, "temporal-reasoning": 0.5, "abstention": 0.5, "sports": 0.5}
    tried = try_claim(
        structs.replace(planted(tmp_path, 0.1, **(rankings if of_rankings else {})), by_group=groups), folders=folders
    )
    measured = {"multi-session", "temporal-reasoning"} if of_rankings else {*groups} - {"sports"}
    assert tried.groups.keys() == measured
    assert set(tried.not_measured) == {*groups} - measured
    wrong = tried.groups["multi-session"]
    assert (wrong.finding, wrong.claimed) == ("not reproduced", 0.0)
    assert sum(one.measured.n for name, one in tried.groups.items() if name != "abstention") < tried.verdict.measured.n
    lines = [line for line in attempt_lines(tried) if isinstance(line, str)]
    assert lines[0].startswith("Not reproduced: ")
    assert re.fullmatch(
        rf"Of {len(measured)} groups of questions: .*[12] not reproduced.* \(corrected .*\)\.", lines[2]
    )
    assert f"Not measured, as no question here is of it: {', '.join(tried.not_measured)}." in lines


def test_what_cannot_be_tried_says_why(tmp_path: Path) -> None:
    (claim,) = claims_of(write(tmp_path, cannot="It is not public."))
    with pytest.raises(HarnessError, match="cannot be tried: It is not public"):
        try_claim(claim, folders=folders_in(tmp_path))
    with pytest.raises(HarnessError, match="question type 'singlehop'"):
        ClaimTrial(planted(tmp_path, 0.5, types=["singlehop"]), Changes(), folders=folders_in(tmp_path))


@pytest.mark.thorough
def test_the_command_says_the_verdict_first(tmp_path: Path) -> None:
    path = write(tmp_path, benchmark="longmemeval", settings=SETTINGS, rows=[ROW | {"value": 0.1}])
    lines = longmemeval("claims", "try", str(path), cwd=tmp_path).stdout.splitlines()
    assert lines[0].startswith("Not reproduced: ")
    assert lines[1].startswith("Claimed 10.0%, measured ")
    assert "Would answer" in longmemeval("claims", "try", str(path), "--dry-run", cwd=tmp_path).stdout
    shown = longmemeval("claims", "show", str(path), cwd=tmp_path).stdout
    assert "bm25" in shown
    assert "To try it: ready." in shown
    listed = json.loads(longmemeval("claims", "list", "--benchmark", "personamem", "--json", cwd=tmp_path).stdout)
    assert {"personamem-controls/longest-option"} <= {one["id"] for one in listed}
