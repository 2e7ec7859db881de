"""Reports, exports, pages and boards hold no absolute path of the user's machine, and texts of the data stay."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.text.paths import document_without_places, without_places
from longmemeval.records import Answer
from longmemeval.report.board import write_board
from longmemeval.results.formats.export import export_runs
from longmemeval.results.manifest import read_manifest, write_manifest
from longmemeval.results.options import ExportFormat
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import STRICT, grade
from tests.report.report_runs import replace_answers, three_runs
from tests.support import longmemeval
from tests.view.client import visitor

SAID = "It is in /home/me/notes.txt, /usr/bin/python says."
"""An answer, which is data and stays."""
RUNS = ("good", "good-again", "bad")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Runs whose manifests, errors and notes are full of absolute paths."""
    folders = three_runs(tmp_path)
    for run_id in RUNS:
        folder = folders.results_dir / run_id
        manifest = read_manifest(folder)
        settings, keyed = manifest.settings, tmp_path / "my memory" / "keyed.py"
        assert settings.memory
        memory = structs.replace(
            settings.memory, preset=f"process:python {tmp_path}/keyed.py", source={"target": f"{tmp_path}/keyed.py"}
        )
        changed = structs.replace(
            manifest,
            settings=structs.replace(settings, memory=memory),
            environment={"command": ["longmemeval", "run", "--dataset", manifest.dataset["path"], f"--data={keyed}"]},
            prepare=f"longmemeval prepare --dataset {manifest.dataset['path']} --memory 'process:x {keyed}'",
        )
        write_manifest(folder, changed)
    ids = read_manifest(folders.results_dir / "bad").question_ids
    failed = Answer(ids[0], "", "error", error=f"The file cannot be read ({tmp_path}/prepared-data/q0/db.json)")
    replace_answers(
        folders.results_dir / "bad",
        lambda name: failed if name == ids[0] else Answer(name, SAID, "ok", notes=(f"see {tmp_path}/log.txt",)),
    )
    data = load_dataset(tmp_path / "colours.json")
    (folders.results_dir / "index.jsonl").unlink()
    for run_id in RUNS:
        grade(data, folders, run_id, dict.fromkeys(ids, run_id == "good"))
    return folders


def texts(folder: Path) -> dict[str, str]:
    """All files below a folder as text, those of archives too."""
    found: dict[str, str] = {}
    for file in folder.rglob("*"):
        if file.suffix == ".eval":
            with zipfile.ZipFile(file) as archive:
                found |= {f"{file}/{name}": archive.read(name).decode() for name in archive.namelist()}
        elif file.is_file():
            found[str(file)] = file.read_bytes().decode("utf-8", "replace")
    return found


@pytest.mark.slow
def test_reports_exports_and_boards_hold_none(folders: Folders, tmp_path: Path) -> None:
    places = ("--results-dir", folders.results_dir, "--prepared-dir", folders.prepared_dir)
    out = tmp_path / "out"
    judged = ("--judge", STRICT.id, *places)
    for form, name in (("html", "r.html"), ("md", "r.md"), ("latex", "r.tex"), ("figures", "figures")):
        longmemeval("report", *RUNS, "--format", form, "-o", out / name, *judged, cwd=tmp_path)
    longmemeval("report", "good", "bad", "--across", "-o", out / "across.html", *places, cwd=tmp_path)
    longmemeval("view", *RUNS, "--export", out / "view", *judged, cwd=tmp_path)
    for form in get_args(ExportFormat):
        if form != "trec":  # It holds rankings.
            assert list(export_runs(RUNS, form, out / form, folders=folders))
    data = [str(tmp_path / "colours.json")]
    write_board([folders.results_dir], out / "board", datasets=data, folders=folders)
    found = texts(out)
    for file, text in found.items():
        assert str(tmp_path) not in text, file
    assert len(found) > 30
    assert json.loads(found[str(out / "board" / "manifests" / "results" / "good.json")])["dataset"]["path"] == (
        "colours.json"
    )
    said = [line["hypothesis"] for line in map(json.loads, found[str(out / "jsonl/bad/bad.jsonl")].splitlines())]
    assert said == ["", *[SAID] * 11]
    assert SAID in found[str(out / "inspect-json" / "bad.json")]


@pytest.mark.slow
def test_pages_hold_none(folders: Folders, tmp_path: Path) -> None:
    client, chosen = visitor(folders, RUNS), "run=good&run=good-again&run=bad&judge=strict"
    shutil.move(folders.results_dir / "good-again", tmp_path / "good-again")
    gone = client.get(f"/compare?{chosen}")
    shutil.move(tmp_path / "good-again", folders.results_dir / "good-again")
    pages = [gone]
    addresses = ("/runs?", "/compare?", "/compare/pictures?", "/questions?", "/question?q=q0&", "/question?q=q1&")
    pages += [client.get(f"{address}{chosen}") for address in (*addresses, "/labels?")]
    pages += [client.get(f"/explore?{chosen}"), client.get(f"/explore/result?{chosen}&q=q1&memory=bm25")]
    assert pages[2].status_code == 200
    for page in pages:
        assert str(tmp_path) not in page.text, page.url
    assert "/home/me/notes.txt" in pages[6].text


def test_paths_become_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {
        f"(in {tmp_path}/results/r/run.json).": "(in results/r/run.json).",
        "`longmemeval run --dataset /tmp/x/mine.json`": "`longmemeval run --dataset mine.json`",
        "process:/usr/bin/python /tmp/a/keyed.py:Mine": "process:python keyed.py:Mine",
        "--data='/home/Jane Doe/my data/x.json'": "--data='x.json'",
        "file:///home/me/x.txt and /tmp/folder/": "file://x.txt and folder",
        r"C:\Users\jane\x.json, D:/a/b.json": "x.json, b.json",
        "http://127.0.0.1:80/v1/home and https://a.b/tmp/x": None,
        "404: /v1/chat/completions, s3://bucket/tmp/x, ~/x/y, and/or": None,
    }
    assert {text: without_places(text) for text in shown} == {text: new or text for text, new in shown.items()}
    document = {"a": ["/tmp/x/y", 3, None], "templates": {"h": "/tmp/x/y"}}
    assert document_without_places(document) == {"a": ["y", 3, None], "templates": {"h": "/tmp/x/y"}}
