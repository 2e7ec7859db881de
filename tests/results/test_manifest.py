"""`run.json`: read as it was written, refused when it is newer or damaged, never with a key in it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.core.files import sha256_bytes
from longmemeval.core.text.words import differences
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.results.index import settings_sha256
from longmemeval.results.manifest import (
    check_run_id,
    environment,
    read_manifest,
    run_folder,
    stored_manifest,
    write_manifest,
)
from longmemeval.settings import Folders
from tests.pipeline.finished import finished
from tests.pipeline.helpers import answer_all, manifest, prepared_colours


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Folders:
    """Folders with one finished run, `r`."""
    return finished(tmp_path_factory, tmp_path, 1, judge="")[1]


def test_manifest_is_read_as_it_was_written(folders: Folders) -> None:
    read = read_manifest(folders.results_dir / "r")
    assert (read.run_id, read.status, read.question_ids) == ("r", "completed", ("q0",))
    assert (folders.results_dir / "r" / "run.json").read_text().startswith('{\n  "format": 2,\n')


def test_newer_format_is_refused_by_name(folders: Folders) -> None:
    path = folders.results_dir / "r" / "run.json"
    path.write_text(json.dumps({"format": 3, "all": "new"}))
    with pytest.raises(
        HarnessError, match=r"has format 3, but this version only understands up to 2 .*run\.json.*Upgrade"
    ):
        read_manifest(path.parent)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": "1"}', b'{"format": 1, "run_id": "\xff"}']
)
def test_damaged_manifest_is_told(folders: Folders, data: bytes) -> None:
    path = folders.results_dir / "r" / "run.json"
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="The manifest is damaged"):
        read_manifest(path.parent)


def test_run_is_found_by_its_id_or_refused_with_the_nearest(folders: Folders) -> None:
    assert run_folder(folders.results_dir, "r") == folders.results_dir / "r"
    (folders.results_dir / "no-run").mkdir()
    with pytest.raises(HarnessError, match="Unknown run 'rr'") as caught:
        run_folder(folders.results_dir, "rr")
    assert caught.value.fix == "Did you mean 'r'? Valid: r"


@pytest.mark.parametrize("run_id", ["a", "2024-01-01_x.y+z", "A" * 120])
def test_run_ids_that_are_folder_names(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


@pytest.mark.parametrize("run_id", ["", ".", "..", "../x", "a/b", "a\\b", "-rf", "é", "a b", "a\n", "A" * 121])
def test_run_ids_that_are_not(run_id: str) -> None:
    with pytest.raises(HarnessError, match="cannot be a run id"):
        check_run_id(run_id)


def test_command_line_is_kept_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "swordfish-swordfish")
    arguments = ["run", "--model", "openai/gpt-4o", "--api-base=http://user:pass1@host/v1?key=swordfish-swordfish"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/longmemeval", *arguments, "sk-proj-0123456789abcdef"])
    command = environment()["command"]
    assert command[:4] == ["longmemeval", "run", "--model", "openai/gpt-4o"]
    assert "host/v1" in command[4]
    assert not any(secret in " ".join(command) for secret in ("pass1", "swordfish", "sk-proj-0123456789abcdef"))


def test_differences_name_the_place_and_both_values() -> None:
    before = {"a": {"b": 1, "c": {"d": "x"}}, "e": [1, 2], "gone": None}
    after = {"a": {"b": 2, "c": {"d": "x"}}, "e": [1], "new": 0}
    assert differences(before, after) == ["a.b: was 1, now 2", "e: was [1, 2], now [1]", "new: was not set, now 0"]
    assert differences(before, before) == []


def test_manifest_of_a_refused_run_is_not_left_behind(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    with pytest.raises(HarnessError):
        answer_all(dataset, folders, memory="combined")
    assert not folders.results_dir.exists()
    answer_all(dataset, folders)
    assert manifest(folders)["status"] == "completed"


MEMORY = {"name": "bm25", "preset": "bm25", "parameters": {"top_k": 10}}
ANSWERS_SETTINGS = {
    "memory": MEMORY,
    "reads_gold": False,
    "model": {"spec": "offline/extractive", "api_base": None, "temperature": 0.0, "max_tokens": 512},
    "reading": {"method": "direct", "history_format": "nl", "on_overflow": "error", "context_window": None},
    "preparation": "default",
    "embedder": None,
    "token_counter": "tiktoken/o200k_base",
    "save_prompts": True,
}
VECTORS = {"embedder": {"spec": "hashing:512", "fingerprint": "f"}}
RANKINGS_SETTINGS = {"memory": MEMORY, "reads_gold": False, "granularity": "session", **VECTORS}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("run", ANSWERS_SETTINGS),
        ("run", {**ANSWERS_SETTINGS, **VECTORS, "repeat": 2, "abstain_below": 1, "protocol": {"name": "official"}}),
        ("retrieval", {**RANKINGS_SETTINGS, "protocol": "standard", "preparation": "default"}),
        ("retrieval", {**RANKINGS_SETTINGS, "protocol": "official", "retriever": "dense"}),
        ("hypotheses", {"hypotheses": {"file": "h.jsonl", "sha256": "s"}, "unknown_questions": ["q9"]}),
    ],
)
def test_settings_are_written_as_they_were_read(tmp_path: Path, kind: str, settings: dict[str, Any]) -> None:
    """What an earlier version left out stays out: the hash of the settings is that of then."""
    document = {"format": 1, "run_id": "r", "kind": kind, "status": "completed", "dataset": {"content_sha256": "c"}}
    document |= {"settings": settings, "question_ids": ["q1"], "fixtures": {}, "environment": {}, "started_at": ""}
    (tmp_path / "run.json").write_text(json.dumps(document))
    read = stored_manifest(tmp_path)
    write_manifest(tmp_path, read)
    again = json.loads((tmp_path / "run.json").read_text())
    assert (read.kind, again["kind"], again["settings"]) == (kind, kind, settings)
    told = [["c", ["q1"], {name: value for name, value in settings.items() if name != "repeat"}]]
    assert settings_sha256(read) == sha256_bytes(msgspec.json.encode(told[0], order="sorted"))


def test_settings_of_another_kind_are_damage(tmp_path: Path) -> None:
    document = {"format": 1, "run_id": "r", "kind": "retrieval", "status": "completed", "dataset": {}}
    document |= {"settings": ANSWERS_SETTINGS, "question_ids": [], "fixtures": {}, "environment": {}, "started_at": ""}
    (tmp_path / "run.json").write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match=r"manifest is damaged.*protocol.*settings"):
        read_manifest(tmp_path)


def test_a_setting_that_this_version_does_not_know_is_another_setting(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    answer_all(dataset, folders)
    path = folders.results_dir / "r" / "run.json"
    document = json.loads(path.read_text())
    document["settings"]["of_tomorrow"] = True
    path.write_text(json.dumps(document))
    assert read_manifest(path.parent).kind == "run"
    with pytest.raises(HarnessError, match="of_tomorrow: was True, now not set"):
        answer_all(dataset, folders)
