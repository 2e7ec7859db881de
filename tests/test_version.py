"""One version; what version 0.2 wrote is read, a run of 0.1 is refused with the command that makes it anew.

`files_of_0_2.tar.xz` is a folder in which version 0.2.0 (commit 43768a6) prepared three haystacks, answered with six
memories, ranked, imported, judged, checked the judge, signed, and saved a baseline.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval import __version__
from longmemeval.errors import HarnessError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.listing import list_runs
from longmemeval.results.run_files import RunFiles
from tests.pipeline.helpers import answer_all, folders_in, prepared_colours
from tests.support import ROOT, clean_environment, json_lines, longmemeval, tree

MEMORIES = ("hybrid", "semantic-recall", "working-memory", "typed-nodes", "engram-lean")
JUDGE = ("--judge", "offline/lexical")


def test_the_citation_and_the_changelog_name_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions == [__version__, "0.1.0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of version 0.2."""
    with tarfile.open(ROOT / "tests" / "files_of_0_2.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


GRAPHS = {"vector-graph.json", "meta.json", "prepare.jsonl"}
"""What `prepare` writes where only the graphs are of an earlier version: they are made again from stored vectors."""


def changed(before: Mapping[str, bytes], folder: Path) -> set[str]:
    """Return the names of the files that are not as they were."""
    now = tree(folder)
    return {Path(path).name for path in {*before, *now} if before.get(path) != now.get(path)}


def test_fixtures_of_0_2_are_whole_and_nothing_but_graphs_is_made_again(folder: Path) -> None:
    before = tree(folder / "prepared-data")
    # The engine reads more than it did: what it read then stays as it is, and its runs hold.
    memories = [word for memory in MEMORIES if memory != "engram-lean" for word in ("--memory", memory)]
    prepare_small = ("prepare", "--dataset", "small.json", "--embedder", "hashing:64")
    assert "0 computed" in longmemeval(*prepare_small, *memories, cwd=folder).stdout
    assert changed(before, folder / "prepared-data") == GRAPHS
    before = tree(folder / "prepared-data")
    assert "Already prepared: 3 haystacks" in longmemeval(*prepare_small, *memories, cwd=folder).stdout
    refused = longmemeval(*prepare_small, "--memory", "engram-lean", cwd=folder, code=2)
    assert "Part 'engram' of this preparation was made by another recipe" in refused.stderr
    assert tree(folder / "prepared-data") == before
    # The same bytes are made of the same data now.
    longmemeval(*prepare_small, *memories, "--memory", "engram-lean", "--name", "now", cwd=folder)
    for path, data in tree(folder / "prepared-data" / "small" / "default").items():
        if path.endswith(".json") and not path.endswith("meta.json") and "engram" not in path:
            assert (folder / "prepared-data" / "small" / "now" / path).read_bytes() == data, path
    checked = longmemeval("verify", "small/default", *memories, "--dataset", "small.json", cwd=folder).stdout
    assert "checks passed" in checked


@pytest.mark.parametrize("memory", [*MEMORIES, "packed-r1"])
def test_runs_of_0_2_hold_and_are_made_again_the_same(folder: Path, memory: str) -> None:
    assert "checks passed" in longmemeval("verify", memory, cwd=folder).stdout
    again = longmemeval("run", "--like", memory, "--run-id", "again", cwd=folder)
    assert "answered" in again.stdout
    found, expected = (recalled(folder, name) for name in ("again", memory))
    assert found == expected
    settings = {name: document(folder / "results" / name / "run.json")["settings"] for name in ("again", memory)}
    later = {"newest_first": False} if memory == "engram-lean" else {}
    settings[memory]["memory"]["parameters"] |= later
    assert settings["again"].items() >= settings[memory].items()


def recalled(folder: Path, run: str) -> dict[str, Any]:
    lines = json_lines(folder / "results" / run / "answers.jsonl")
    return {line["question_id"]: (line["recall_ids"], line["prompt_sha256"]) for line in lines}


def document(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_bytes())
    return read


def test_a_run_of_0_2_is_extended_judged_and_compared(folder: Path) -> None:
    before = (folder / "results" / "begun" / "answers.jsonl").read_bytes()
    run = ("run", "--dataset", "small.json", "--memory", "hybrid", "--model", "offline/extractive")
    longmemeval(*run, "--extend", "begun", cwd=folder)
    answers = (folder / "results" / "begun" / "answers.jsonl").read_bytes()
    assert (answers.startswith(before), len(answers.splitlines())) == (True, 3)
    for name in ("begun", "hybrid"):
        longmemeval("evaluate", name, *JUDGE, cwd=folder)
    table = json.loads(longmemeval("compare", "begun", "hybrid", "--json", cwd=folder).stdout)
    # Today's offline model knows one question more.
    assert [(one["overall"]["accuracy"], one["answered"]) for one in table["runs"]] == [(1.0, 3), (2 / 3, 3)]
    longmemeval("evaluate", "typed-nodes", *JUDGE, cwd=folder)
    # The baseline is of the judge of then, whose scores the others have too.
    then = ("--judge", "offline-lexical-8e7ec198", "--against", "baseline.json")
    assert "hybrid" in longmemeval("compare", "typed-nodes", *then, cwd=folder).stdout


def test_scores_rankings_and_signatures_of_0_2_are_shown(folder: Path) -> None:
    runs = {run.run: run for run in list_runs(folder / "results")}
    assert len(runs) == 10
    assert runs["hybrid"].scores[0].value == 2 / 3
    assert RunFiles(folder / "results" / "hybrid").metrics[0].format == 2
    assert "checks passed" in longmemeval("verify", "ranked", cwd=folder).stdout
    assert "checks passed" in longmemeval("verify", "theirs", cwd=folder).stdout
    signed = longmemeval("verify", "typed-nodes", "--public-key", "public.pem", cwd=folder).stdout
    assert "checks passed, signed by the owner of public.pem" in signed


def test_a_run_of_0_1_is_refused_with_its_command(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
    answer_all(dataset, folders)
    path = folders.results_dir / "r" / "run.json"
    manifest = document(path)
    manifest["environment"] |= {"packages": {"longmemeval": "0.1.0"}, "command": ["longmemeval", "run", "--limit", "2"]}
    path.write_text(json.dumps(manifest | {"format": 1}))
    before = tree(folders.results_dir)
    for act in (lambda: verify("r", folders=folders), lambda: answer_all(dataset, folders)):
        with pytest.raises(
            HarnessError, match=r"Version 0\.1\.0 started this run, which this version can no longer read"
        ) as caught:
            act()
        assert "under another --run-id with `longmemeval run --limit 2`; the files" in caught.value.fix
    assert tree(folders.results_dir) == before
    # The list of runs still shows it.
    assert [run.run for run in list_runs(folders.results_dir)] == ["r"]


def test_a_meta_json_that_0_2_wrote_is_read_and_written_in_format_2(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1, "last-k")
    path = folders.prepared_dir / dataset.name / "default" / "q0" / "meta.json"
    meta = document(path)
    assert meta["format"] == 2
    path.write_bytes(msgspec.json.encode(meta | {"format": 1}))
    prepare(dataset, ["bm25"], options=PrepareOptions(jobs=1), folders=folders)
    assert document(path)["format"] == 2
    assert document(path)["parts"]["db"] == meta["parts"]["db"]


@pytest.fixture(scope="module")
def before_the_merge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commit b9d3f326, where the package had 803 modules of other names.

    Three haystacks, runs of seven memories, a run of a user's file `own.py` that lacks an answer, two rankings, and the
    runs of a script that defines a class.
    """
    folder = tmp_path_factory.mktemp("before the merge")
    with tarfile.open(ROOT / "tests" / "files_before_the_merge.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


RUNS_BEFORE = ("hybrid", "semantic-recall", "working-memory", "typed-nodes", "engram-lean", "combined", "full-history")


@pytest.mark.slow
def test_of_what_was_there_before_the_merge_graphs_alone_are_made_again(before_the_merge: Path, tmp_path: Path) -> None:
    folder = copied(before_the_merge, tmp_path)
    before = tree(folder / "prepared-data" / "small")
    # The engine reads more than it did.
    kept = [name for name in (*RUNS_BEFORE[:-1], "own:Notes") if not name.startswith("engram")]
    memories = [word for name in kept for word in ("--memory", name)]
    again = ("prepare", "-d", "small.json", "--embedder", "hashing:64", *memories)
    longmemeval(*again, cwd=folder)
    assert changed(before, folder / "prepared-data" / "small") == GRAPHS
    before = tree(folder / "prepared-data" / "small")
    assert "Already prepared: 3 haystacks" in longmemeval(*again, cwd=folder).stdout
    # A class of a script is the same memory, although what it uses of this package has moved.
    started = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    assert tree(folder / "prepared-data" / "small") == before
    for name in ("cell", "wide"):
        assert (folder / "results" / name / "answers.jsonl").read_bytes() == (
            before_the_merge / "results" / name / "answers.jsonl"
        ).read_bytes()


@pytest.mark.slow
def test_a_run_from_before_the_merge_is_gone_on_with(before_the_merge: Path, tmp_path: Path) -> None:
    folder = copied(before_the_merge, tmp_path)
    same = ("run", "-d", "small.json", "--embedder", "hashing:64", "--model", "offline/extractive")
    done = longmemeval(*same, "--memory", "own:Notes", "--resume", "own", cwd=folder)
    assert "Run own: 3 of 3 questions answered" in done.stdout
    assert "(1 now)" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("run", [*RUNS_BEFORE, "own", "cell", "wide", "ranked-bm25", "ranked-hybrid"])
def test_runs_from_before_the_merge_hold(before_the_merge: Path, run: str) -> None:
    found = verify(run, dataset=str(before_the_merge / "small.json"), folders=folders_in(before_the_merge))
    # What counts as a refusal was mended since: of a run with one, `evaluate` computes abstentions anew.
    assert [one for one in found.problems if "as an earlier version computed them (abstaining.method" not in one] == []
    assert (found.problems != ()) == (run == "cell")


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to, dirs_exist_ok=True)
    return to
