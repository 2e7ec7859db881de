"""A sweep that dies goes on where it was."""

import json
import signal
from pathlib import Path

import pytest

from longmemeval.benchmarks.catalogue import catalogue_entry, data_file
from longmemeval.settings import Folders
from tests.pipeline.helpers import (
    answer_all,
    answers,
    folders_in,
    lines_in,
    litter,
    manifest,
    prepared_colours,
    start,
    stop_when,
    timeless,
)
from tests.pipeline.sweeps import written
from tests.server import ModelServer
from tests.support import longmemeval


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over thirty of the shipped haystacks, done without any fault."""
    folder = tmp_path_factory.mktemp("many")
    records = json.loads(data_file(catalogue_entry("sample"), folder).read_text())[:30]
    (folder / "colours.json").write_text(json.dumps(records))
    written(folder, memories=["full-history", "bm25"], readings=["direct", "con"])
    longmemeval("sweep", "sweep.yaml", cwd=folder)
    return folder


def with_data(many: Path, folder: Path) -> Folders:
    for name in ("colours.json", "sweep.yaml"):
        (folder / name).symlink_to(many / name)
    return folders_in(folder)


def test_killed_sweep_goes_on_where_it_was(many: Path, tmp_path: Path) -> None:
    folders = with_data(many, tmp_path)
    first, last = folders.results_dir / "s_full-history_m_direct", folders.results_dir / "s_bm25_m_con"
    moments = [
        lambda: lines_in(tmp_path / "prepared-data" / "colours" / "default" / "prepare.jsonl") >= 5,
        lambda: lines_in(first / "answers.jsonl") >= 10,
        lambda: any(lines_in(file) >= 5 for file in (first / "judgements").glob("*.jsonl")),
        lambda: lines_in(last / "answers.jsonl") >= 5,
    ]
    for moment in moments:
        stop_when(start("sweep", "sweep.yaml", cwd=tmp_path), moment, signal.SIGKILL)
    kept = answers(folders, first.name)
    longmemeval("sweep", "sweep.yaml", cwd=tmp_path)
    assert answers(folders, first.name) == kept
    assert comparable(tmp_path / "results") == comparable(many / "results")
    assert litter(tmp_path) == []


def comparable(results: Path) -> dict[str, object]:
    """All files without times; hashes of what holds times are left out too, and the locks of the killed."""
    files = timeless(results).items()
    return {name: _without_hash(content) for name, content in files if not name.endswith(".lock")}


def _without_hash(content: object) -> object:
    if not isinstance(content, bytes):
        return content
    return {key: value for key, value in json.loads(content).items() if key != "judgements_sha256"}


def test_a_manifest_that_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 3, "none")
    answer_all(dataset, folders, memory="none")
    (folders.results_dir / "r" / ".run.json.0t5c.tmp").write_text("{")
    answer_all(dataset, folders, memory="none")
    assert litter(folders.results_dir) == []


@pytest.mark.thorough
def test_interrupt_ends_the_whole_sweep_and_keeps_what_is_there(many: Path, tmp_path: Path) -> None:
    """In the second of four runs, while the model keeps the eleventh reply to itself."""
    places = [tmp_path / "whole", tmp_path / "interrupted"]
    with ModelServer() as server:
        model = {"spec": "openai/local", "name": "m", "api_base": server.url}
        choice = {"memories": ["full-history", "bm25"], "readings": ["direct", "con"], "concurrency": 1}
        for place in places:
            place.mkdir()
            (place / "colours.json").symlink_to(many / "colours.json")
            written(place, models=[model], **choice)
        whole, folders = map(folders_in, places)
        longmemeval("sweep", "sweep.yaml", cwd=places[0])
        held_from = len(server.chat_requests) + 30 + 10
        server.plan = lambda: "hang" if len(server.chat_requests) > held_from else None
        process = start("sweep", "sweep.yaml", cwd=places[1])
        told = stop_when(process, lambda: len(server.chat_requests) > held_from, signal.SIGINT)
        server.plan = lambda: None
        assert process.returncode == 130
        assert "Interrupted. Finished work is kept" in told
        assert "Traceback" not in told
        assert not (folders.results_dir / "s_bm25_m_direct").exists()
        assert manifest(folders, "s_full-history_m_con")["status"] == "interrupted"
        kept = answers(folders, "s_full-history_m_con")
        assert len(kept) == 10
        longmemeval("sweep", "sweep.yaml", cwd=places[1])
    assert answers(folders, "s_full-history_m_con")[: len(kept)] == kept
    assert comparable(folders.results_dir) == comparable(whole.results_dir)
