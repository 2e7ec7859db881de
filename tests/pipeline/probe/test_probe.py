"""`probe`: the control that recalls nothing passes nothing, the one that reads the evidence passes all."""

import json
from pathlib import Path

import pytest

from longmemeval.errors import DataError
from longmemeval.pipeline.probe import probe as pipeline
from longmemeval.pipeline.probe.probe import MEASURE, ProbeReport, probe
from longmemeval.settings import Folders
from tests.pipeline.helpers import folders_in


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return folders_in(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def report(folders: Folders) -> ProbeReport:
    return probe(["bm25", "last-k"], seed=3, lives=2, sessions=(10, 40), folders=folders)


@pytest.mark.slow
def test_controls_stand_beside_every_memory(report: ProbeReport) -> None:
    assert [one.memory for one in report.memories] == ["bm25", "last-k", "none", "oracle"]
    found = {one.memory: {name: mean.mean for name, mean in one.probes.items()} for one in report.memories}
    assert set(found["none"].values()) == {0}
    assert set(found["oracle"].values()) == {1}
    assert len(found["bm25"]) == 5


@pytest.mark.slow
def test_every_probe_can_be_passed_and_failed_by_a_memory(report: ProbeReport) -> None:
    bm25, last = report.memories[:2]
    assert 0.2 < (bm25.overall.mean or 0) < 1
    assert (bm25.probes["in the noise"].mean or 0) > (last.probes["in the noise"].mean or 0)
    assert bm25.same_twice == 1


@pytest.mark.slow
def test_the_verdict_names_the_weakest_probe(report: ProbeReport) -> None:
    assert report.verdict.startswith("bm25 passes ")
    assert "lowest: " in report.verdict
    assert f"of {report.questions} questions" in report.verdict


@pytest.mark.thorough
@pytest.mark.slow
def test_the_same_seed_is_the_same_data_and_nothing_is_prepared_again(report: ProbeReport, folders: Folders) -> None:
    again = probe(["bm25"], seed=3, lives=2, sessions=(10, 40), folders=folders)
    assert again.dataset == report.dataset
    assert again.memories[0].probes == report.memories[0].probes
    assert MEASURE == "current_first@10"


@pytest.mark.slow
def test_a_killed_probe_goes_on_in_the_folders_it_began(tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    whole = probe(["bm25"], seed=5, lives=1, sessions=(10,), folders=folders)
    (run_id,) = [one.run_id for one in whole.memories if one.memory == "bm25"]
    folder = folders.results_dir / run_id
    journal, manifest = folder / "rankings.jsonl", json.loads((folder / "run.json").read_text())
    ranked = journal.read_bytes()
    # As a kill leaves it: a line cut, and nobody said that it ended.
    journal.write_bytes(ranked[: ranked.index(b"\n") + 20])
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "running", "files": {}}))
    again = probe(["bm25"], seed=5, lives=1, sessions=(10,), folders=folders)
    assert [one.run_id for one in again.memories if one.memory == "bm25"] == [run_id]
    assert journal.read_bytes() == ranked
    assert again.memories[0].probes == whole.memories[0].probes


@pytest.mark.slow
def test_an_interrupted_probe_without_a_seed_goes_on_with_its_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = folders_in(tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "retrieve", killed)
        with pytest.raises(KeyboardInterrupt):
            probe(["bm25"], lives=1, sessions=(10,), folders=folders)
    (begun,) = (folders.data_dir / "probes").glob("begun-*")
    seed = int(begun.read_text())
    assert probe(["bm25"], lives=1, sessions=(10,), folders=folders).seed == seed
    assert not begun.exists()
    assert probe(["bm25"], lives=1, sessions=(10,), folders=folders).seed != seed


def test_a_life_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="3 sessions"):
        probe(["bm25"], seed=1, sessions=(3,), folders=folders_in(tmp_path))
