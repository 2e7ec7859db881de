"""The page as a file: equal bytes, a strict policy, what is embedded and what is left out."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longmemeval.errors import HarnessError
from longmemeval.report.write import ReportOptions, render_report, write_report
from longmemeval.settings import Folders
from tests.pipeline import graded_runs
from tests.report.report_runs import hostile_run, large_run, three_runs
from tests.support import clean_environment, longmemeval

STRICT = ReportOptions(judge="strict")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(folders: Folders) -> str:
    return render_report(["good", "bad"], options=STRICT, folders=folders)


def embedded(page: str, name: str) -> dict[str, Any]:
    """The JSON in one of the page's elements."""
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert match
    document: dict[str, Any] = json.loads(match[1])
    return document


@pytest.mark.thorough
def test_equal_files_give_an_equal_page_in_another_process_too(folders: Folders, page: str, tmp_path: Path) -> None:
    places = [f"--{name}-dir={getattr(folders, f'{name}_dir')}" for name in ("data", "prepared", "results")]
    done = longmemeval(
        "report", "good", "bad", "--judge", "strict", *places, cwd=tmp_path, PYTHONHASHSEED="7", TZ="Asia/Tokyo"
    )
    assert (tmp_path / "report.html").read_text() == page
    assert done.stdout == f"report.html: {len(page.encode()) / 1e6:.1f} MB, 12 questions, runs: 2\n"


def test_nothing_may_be_loaded_and_only_the_own_script_may_run(page: str) -> None:
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert match
    policy = dict(one.strip().split(" ", 1) for one in match[1].replace("&#39;", "'").split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["img-src"] == "data:"
    for directive, element in (("script-src", "<script>"), ("style-src", "<style>")):
        start = page.index(element) + len(element)
        text = page[start : page.index(element.replace("<", "</"), start)]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{digest}'"
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*", page) == []
    assert "innerHTML" not in page
    assert "@import" not in page


def test_messages_are_embedded_once_however_many_runs_recall_them(page: str) -> None:
    details = embedded(page, "detail-data")
    messages = details["messages"]
    assert len({entry[0] for entry in messages[:4]}) == 4
    texts = [entry[3][0] for entry in messages]
    assert texts.count("I painted my bicycle3 black today. Any tips?") == 1
    question = details["questions"][3]
    good, bad = question["runs"]
    assert [messages[number][0] for number in good["recalled"]["shown"]] == ["filler_1:0", "answer_1:0", "answer_1:1"]
    assert [messages[number][0] for number in bad["cut"]["shown"]] == ["answer_1:0"]
    assert question["evidence"] == [good["recalled"]["shown"][1]]
    judges = [details["judges"][verdict["judge"]] for verdict in good["verdicts"]]
    assert judges == [graded_runs.STRICT.id, graded_runs.LENIENT.id]


@pytest.mark.slow
def test_hostile_texts_cannot_end_their_element(tmp_path: Path) -> None:
    page = render_report(["one", "two"], folders=hostile_run(tmp_path))
    assert page.count("<script") == page.count("</script>") == 3
    assert "<img" not in page
    assert "49" not in re.findall(r"\{\{.*?\}\}", page)
    assert not re.search("[\u2028\u2029\u202e\x00\x07\x1b]", page)
    row, _ = embedded(page, "page-data")["rows"]
    assert row["text"].startswith("<script>window.harmed = 1</script></script><img")


@pytest.mark.thorough
@pytest.mark.slow
def test_full_leaves_nothing_out(tmp_path: Path) -> None:
    folders = large_run(tmp_path, questions=120)
    folder = folders.results_dir / "large"
    short = render_report(["large"], folders=folders)
    full = render_report(["large"], options=ReportOptions(full=True), folders=folders)
    lengths = {
        name: len(embedded(text, "detail-data")["questions"][7]["runs"][0]["prompt"][0][0])
        for name, text in (("short", short), ("full", full))
    }
    assert lengths["full"] == len("q7 " + "history " * 5_000)
    assert lengths["short"] < 10_000
    assert "Prompts are cut to about" in short
    assert "prompts.jsonl" in short
    assert "are cut to about" not in full
    assert (folder / "prompts.jsonl").stat().st_size > len(short)


@pytest.mark.slow
def test_many_records_keep_their_answers_and_lose_their_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = large_run(tmp_path, questions=20)
    monkeypatch.setattr("longmemeval.report.page.question_data._ANSWERS_BUDGET", 1_000)
    monkeypatch.setattr("longmemeval.report.page.question_data._PROMPTS_BUDGET", 20 * 249)
    page = render_report(["large"], folders=folders)
    runs = [question["runs"][0] for question in embedded(page, "detail-data")["questions"]]
    # 200 bytes of each, not 25.
    assert {(len(run["hypothesis"][0]), run["hypothesis"][1]) for run in runs} == {(200, 640)}
    assert not any("prompt" in run for run in runs)
    assert "This page has no prompts: there are too many." in page
    assert "Prompts are cut" not in page


def test_a_run_of_another_system_has_a_page(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    hypotheses = tmp_path / "theirs.jsonl"
    hypotheses.write_text(json.dumps({"question_id": "q1", "hypothesis": "green"}) + "\n")
    places = [f"--{name}-dir={getattr(folders, f'{name}_dir')}" for name in ("data", "results")]
    evaluate: list[str | Path] = [
        "evaluate",
        "--hypotheses",
        hypotheses,
        "--dataset",
        tmp_path / "colours.json",
        "--judge",
        "offline/lexical",
    ]
    longmemeval(*evaluate, *places, cwd=tmp_path, code=1)
    (run_id,) = [one.name for one in folders.results_dir.iterdir() if one.name.startswith("theirs")]
    page = render_report([run_id], folders=folders)
    first, second = embedded(page, "page-data")["rows"][:2]
    assert (first["credits"], second["credits"]) == ([None], [1.0])
    assert "Evidence recall" not in page
    assert "hypotheses from theirs.jsonl" in page


@pytest.mark.thorough
def test_without_the_libraries_the_error_says_what_to_install(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "matplotlib.py").write_text("raise ImportError('no', name='matplotlib')\n")
    code = (
        "import sys; sys.path.insert(0, 'without')\n"
        "from longmemeval.cli.main import main\n"
        "sys.argv[:1] = ['longmemeval', 'report', 'good', '--judge', 'strict']\n"
        "main()"
    )

    def report(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, "--results-dir", folders.results_dir, *arguments],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    refused = report()
    assert refused.returncode == 2
    assert "[report]'" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "report.html").exists()
    assert report("--format", "md", "--output", "-").stdout.startswith("# colours")


def test_mistakes_are_told(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="Did you mean 'good'"):
        write_report(["goood"], tmp_path / "r.html", folders=folders)
    with pytest.raises(HarnessError, match="no judge of that name: 'nobody'"):
        write_report(["good"], tmp_path / "r.html", options=ReportOptions(judge="nobody"), folders=folders)
    with pytest.raises(HarnessError, match="given twice"):
        write_report(["good", "good"], tmp_path / "r.html", options=STRICT, folders=folders)
    assert list(tmp_path.iterdir()) == []
    refused = longmemeval("report", "good", "--output", "-", "--results-dir", folders.results_dir, cwd=tmp_path, code=2)
    assert "a page needs a file: --output FILE" in refused.stderr


def test_view_exports_the_page_to_a_folder(folders: Folders, tmp_path: Path) -> None:
    places = [f"--{name}-dir={getattr(folders, f'{name}_dir')}" for name in ("data", "prepared", "results")]
    done = longmemeval("view", "good-again", "bad", "--export", "out", *places, cwd=tmp_path)
    assert done.stdout == "out/index.html\n"
    assert (tmp_path / "out" / "index.html").read_text() == render_report(["good-again", "bad"], folders=folders)
    refused = longmemeval("view", "--export", "out", *places, cwd=tmp_path, code=2)
    assert "--export needs runs" in refused.stderr
