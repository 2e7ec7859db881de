"""What `--dry-run --json` says, verb by verb: programs read it, so its keys stay."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Command
from tests.pipeline.helpers import answer_all, colours, prepared_colours

Told = Callable[[str], dict[str, Any]]
PRICED = "openai/gpt-4o-mini"
WORK = {
    *("model", "calls", "prompt_tokens", "completion_tokens", "dollars", "basis"),
    *("least_prompt_tokens", "most_prompt_tokens", "counted", "too_long", "bounded"),
}
STAGE = {"name", "work", "reply_tokens", "dollars", "seconds", "replies", "by_batch"}
PREPARATION = {
    *("preparation", "folder", "haystacks", "parts", "embedder", "index", "prepared", "already", "messages"),
    *("embeddings_computed", "embeddings_cached", "embeddings_damaged", "usage", "recovered", "notes", "dropped"),
    *("failed", "failed_haystacks", "seconds", "dry_run", "estimate", "stages", "expected"),
}
RUN = {"questions", "left", "stages", "replies", "disk_bytes", "preparation", "batch", "notes", "measured_by"}
TOTAL = {
    *("calls", "prompt_tokens", "completion_tokens", "dollars"),
    *("least_prompt_tokens", "most_prompt_tokens", "reply_tokens", "expected_dollars", "seconds", "unknown"),
}


def stages_in(found: object) -> list[dict[str, Any]]:
    """Every stage of a document, wherever it stands."""
    if isinstance(found, list):
        return [stage for item in found for stage in stages_in(item)]
    if not isinstance(found, dict):
        return []
    return [found] if "by_batch" in found else [stage for item in found.values() for stage in stages_in(item)]


@pytest.fixture
def told(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Returns the document of a command on four questions in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    colours(tmp_path / "colours.json", 4)

    def tell(line: str) -> dict[str, Any]:
        outcome = command(f"{line} --dry-run --json")
        assert outcome.code == 0, outcome.stderr
        document: dict[str, Any] = json.loads(outcome.stdout)
        assert all(stage.keys() == STAGE and stage["work"].keys() == WORK for stage in stages_in(document))
        return document

    return tell


def test_of_preparing_and_running(told: Told) -> None:
    prepared = told(f"prepare -d colours.json -m working-memory --working-memory-model {PRICED}")
    assert prepared.keys() == PREPARATION
    assert [stage["name"] for stage in prepared["stages"]] == ["working memory"]
    assert prepared["expected"].keys() == {"seconds", "processor_s", "basis", "least_seconds", "most_seconds"}
    run = told(f"run -d colours.json -m full-history --model {PRICED}")
    assert run.keys() == RUN
    assert run["preparation"].keys() == PREPARATION
    assert [stage["name"] for stage in run["stages"]] == ["answers", f"judge {run['stages'][1]['work']['model']}"]


def test_of_grading_and_of_checking_a_judge(told: Told, tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    grading = told(f"evaluate r --judge {PRICED} --judge offline/lexical")
    assert grading.keys() == {"run", "questions", "answered", "judges", "batch", "notes"}
    assert [judge.keys() for judge in grading["judges"]] == [{"judge", "labelled", "left", "stage", "replies"}] * 2
    check = told(f"judge check {PRICED} --dataset colours.json")
    assert check.keys() == {"estimate"}
    assert check["estimate"].keys() == {
        *("plants", "to_judge", "calls", "prompt_tokens", "completion_tokens", "usd"),
    }


def test_of_a_sweep(told: Told, tmp_path: Path) -> None:
    grid = {"name": "s", "dataset": "colours.json", "memories": ["none"], "models": [PRICED], "judges": [PRICED]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(grid))
    estimate = told("sweep sweep.yaml")["estimate"]
    preparing = {"preparation", "more_preparations"}
    assert estimate.keys() == TOTAL | preparing | {"planning", "budget", "runs", "complete", "spent", "notes"}
    (run,) = estimate["runs"]
    assert run.keys() == {"run_id", "name", "questions_left", "answering", "judging", "replies", "questions"}
