"""The board lists verified runs alone, ranks none inside the noise, and says why others are apart."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline.board import make_board, ranks
from longmemeval.pipeline.verify.verify import sign
from longmemeval.report.board import board_page, write_board
from longmemeval.results.manifest import read_manifest, write_manifest
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.cli.conftest import Command, command
from tests.pipeline.graded_runs import graded_run, labels, record_messages
from tests.pipeline.helpers import colours, folders_in
from tests.pipeline.verify.test_signature import make_key
from tests.support import tree

__all__ = ["command"]
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


def settings(name: str, **others: object) -> Mapping[str, object]:
    return {"memory": {"name": name, "preset": "last-k", "parameters": {}}, **others}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Runs of 40 questions: two that are nearly the same, one far worse, one under a budget, one ceiling."""
    dataset, folders = colours(tmp_path / "colours.json", 40), folders_in(tmp_path)
    graded_run(dataset, folders, "best", labels(38, 2), settings=settings("best"))
    graded_run(dataset, folders, "close", [*labels(36, 3), True], settings=settings(HOSTILE))
    graded_run(dataset, folders, "worst", labels(8, 32), settings=settings("worst"))
    small = {"name": "small", "preset": "bm25", "parameters": {"budget": 500}}
    graded_run(dataset, folders, "small", labels(10, 30), settings={"memory": small})
    graded_run(dataset, folders, "gold", labels(40), settings=settings("gold", reads_gold=True))
    for folder in folders.results_dir.iterdir():
        if folder.is_dir():
            finish(folder, dataset)
    return folders


def finish(folder: Path, dataset: Dataset) -> None:
    """Make the run one of a version, with times of its own and hashes of the messages it read, as every run has."""
    path = folder / "answers.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"recall_ms":0.0', b'"recall_ms":%d.0' % len(folder.name)))
    path.write_bytes(path.read_bytes().replace(b'"latency_ms":0.0', b'"latency_ms":%d.0' % ord(folder.name[0])))
    record_messages(folder, dataset)
    manifest = read_manifest(folder)
    write_manifest(folder, structs.replace(manifest, environment={"packages": {"longmemeval": "0.2.0"}}))


def built(folders: Folders) -> dict[str, dict[str, object]]:
    """Run -> its row."""
    board = make_board(
        [folders.results_dir], datasets=[str(folders.results_dir.parent / "colours.json")], folders=folders
    ).board
    return {row.run: structs.asdict(row) for field in board.fields for row in field.rows}


@pytest.mark.slow
def test_places_hold_beyond_the_noise_and_within_a_field(folders: Folders) -> None:
    rows = built(folders)
    assert {name: row["rank"] for name, row in rows.items()} == {
        "best": (1, 2),
        "close": (1, 2),
        "worst": (3, 3),
        "small": (1, 1),
        "gold": None,
    }
    assert rows["gold"]["mark"] == "ceiling"
    assert (rows["best"]["score"], rows["best"]["n"], rows["best"]["version"]) == (0.95, 40, "0.2.0")
    assert rows["best"]["warnings"] == ("unchecked-judge",)


def test_a_place_ends_only_where_all_above_are_better_than_all_below() -> None:
    def unless(*same: tuple[int, int]) -> Callable[[int, int], bool]:
        return lambda above, below: (above, below) not in same

    assert ranks(3, unless()) == [(1, 1), (2, 2), (3, 3)]
    assert ranks(3, unless((0, 1))) == [(1, 2), (1, 2), (3, 3)]
    # The first is better than the last, but neither differs from the one between.
    assert ranks(3, unless((0, 1), (1, 2))) == [(1, 3), (1, 3), (1, 3)]
    assert ranks(4, unless((0, 3))) == [(1, 4)] * 4
    assert ranks(0, unless()) == []


@pytest.mark.slow
def test_signatures_are_checked_with_the_keys_of_who_makes_the_board(folders: Folders, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (private, public), (other, _) = make_key(tmp_path, "ann"), make_key(tmp_path, "bob")
    shutil.copy(public, keys)
    for run_id, key in (("best", private), ("close", other), ("worst", private)):
        sign(run_id, key, folders=folders)
    data = [str(tmp_path / "colours.json")]
    # As whoever edits a run would: every hash made anew, the signature left.
    worst = folders.results_dir / "worst"
    write_manifest(worst, structs.replace(read_manifest(worst), environment={"packages": {"longmemeval": "9.9"}}))
    board = make_board([folders.results_dir], datasets=data, keys=keys, folders=folders).board
    signers = {row.run: row.signer for field in board.fields for row in field.rows}
    assert (signers["best"].name, len(signers["best"].key)) == ("ann", 64)
    assert (signers["close"].name, signers["close"].key == signers["best"].key) == ("", False)
    assert signers["small"].key == ""
    (apart,) = board.apart
    assert (apart.submission, "its signature does not hold" in apart.reason) == ("results/worst", True)
    page = board_page(board)
    assert f"ann, key {signers['best'].key[:16]}…" in page
    assert f"key {signers['close'].key[:16]}…, not checked" in page
    with pytest.raises(HarnessError, match=r"folder.* does not exist"):
        make_board([folders.results_dir], datasets=data, keys=tmp_path / "none", folders=folders)


def test_what_is_not_ranked_has_its_reason(folders: Folders) -> None:
    results = folders.results_dir
    shutil.copytree(results / "best", results.parent / "others" / "best")
    judgements = next((results / "close" / "judgements").iterdir())
    judgements.write_bytes(judgements.read_bytes().replace(b'"label":false', b'"label":true ', 1))
    shutil.rmtree(results / "worst" / "metrics")
    shutil.rmtree(results / "worst" / "judgements")
    (results / "index.jsonl").unlink()
    small = read_manifest(results / "small")
    write_manifest(results / "small", structs.replace(small, status="interrupted"))
    (results / "gold" / "run.json").write_text("{")
    board = make_board(
        [results, results.parent / "others"], datasets=[str(results.parent / "colours.json")], folders=folders
    ).board
    told = {one.submission: one.reason for one in board.apart}
    assert told["others/best"] == "holds the same answers as results/best"
    assert told["results/close"].startswith("does not verify: ")
    assert told["results/worst"] == "is not graded"
    assert told["results/small"] == "is not completed (interrupted)"
    assert "damaged" in told["results/gold"]
    assert [row.run for field in board.fields for row in field.rows] == ["best"]


def test_data_comes_from_here_and_shards_do_not_count(folders: Folders) -> None:
    best = read_manifest(folders.results_dir / "best")
    write_manifest(folders.results_dir / "best", structs.replace(best, selection=Selection(shard="1/2")))
    board = make_board([folders.results_dir], folders=folders).board
    told = {one.submission: one.reason for one in board.apart}
    assert told["results/best"] == "is shard 1/2; the merged run is what counts"
    assert told["results/worst"] == "Its dataset 'colours' is not in the catalogue; --dataset FILE names it"
    # Not even where the manifest calls its own file by a name of the catalogue.
    close = read_manifest(folders.results_dir / "close")
    write_manifest(folders.results_dir / "close", structs.replace(close, dataset=close.dataset | {"name": "sample"}))
    board = make_board([folders.results_dir / "close"], folders=folders).board
    assert [one.reason for one in board.apart] == ["It answered other data than sample of the catalogue"]
    with pytest.raises(HarnessError, match=r"folder.* does not exist"):
        make_board([folders.results_dir / "nobody"], folders=folders)


@pytest.mark.slow
def test_page_escapes_and_links(folders: Folders, tmp_path: Path) -> None:
    data = [str(tmp_path / "colours.json")]
    output = tmp_path / "board"
    (output / "manifests").mkdir(parents=True)
    (output / "manifests" / "gone.json").write_text("{}")
    written = write_board([folders.results_dir], output, datasets=data, folders=folders)
    assert (written.ranked, written.shown, written.apart) == (4, 1, 0)
    page = (output / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "1 to 2" in page
    # An ! is a sentence below the table, and a code for machines alone.
    assert "error rate has not been measured on this benchmark" in page
    assert "unchecked-judge" not in page
    assert not (output / "manifests" / "gone.json").exists()
    document = json.loads((output / "board.json").read_text())
    rows = [row for field in document["fields"] for row in field["rows"]]
    assert {field["field"]["budget"] for field in document["fields"]} == {"", "500 tokens"}
    for row in rows:
        assert f'href="{row["manifest"]}"' in page
        own = (folders.results_dir / row["run"] / "run.json").read_bytes()
        assert row["manifest_sha256"] == hashlib.sha256(own).hexdigest()
        # The copy has no path of this machine; without one, it is the file itself.
        copy = (output / row["manifest"]).read_bytes()
        assert copy == own.replace(f"{tmp_path}/colours.json".encode(), b"colours.json")
    before = tree(output)
    write_board([folders.results_dir], output, datasets=data, folders=folders)
    assert tree(output) == before


@pytest.mark.slow
def test_command_line(folders: Folders, tmp_path: Path, command: Command) -> None:
    (folders.results_dir / "gold" / "run.json").write_text("{")
    asked = f"board build {folders.results_dir} -o {tmp_path}/board -d {tmp_path}/colours.json"
    done = command(asked)
    assert (done.code, "4 ranked runs, 0 without a rank, 1 listed separately" in done.stdout) == (0, True)
    assert "results/gold: " in done.stderr
    assert json.loads(command(f"{asked} --json").stdout)["format"] == 1
