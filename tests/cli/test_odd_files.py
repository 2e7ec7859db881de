"""Files as editors, other systems and links leave them: a byte-order mark, a folder elsewhere, control signs."""

import json
import shutil
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.storage.fixture import Fixture
from tests.benchmarks.convomem.files import city_item, evidence_file, write_json
from tests.cli.conftest import Command, Outcome
from tests.conftest import real_file
from tests.support import json_lines, record, write_dataset

PREPARE = "prepare --dataset d.json --memory"
RUN = "run --dataset d.json --model offline/extractive --memory last-k"
JUDGE = {
    "name": "own",
    "reply": "yes-no",
    "max_tokens": 10,
    "temperature": 0,
    "templates": {"t": "{question} {answer} {hypothesis}"},
    "choose": {"default": "t", "abstention": "t"},
}


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Path:
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "d.json", record("q1"), record("q2"))
    well(command(f"{PREPARE} last-k"))
    return tmp_path / "prepared-data" / "d" / "default"


def well(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome
    return outcome


def marked(path: Path, text: str) -> None:
    path.write_bytes(BOM_UTF8 + text.encode())


@pytest.mark.slow
def test_byte_order_mark_before_what_people_write(prepared: Path, command: Command, tmp_path: Path) -> None:
    marked(tmp_path / "m.yaml", "preset: last-k\n")
    marked(tmp_path / "t", "{history} {question_date} {question}")
    marked(tmp_path / "s.json", json.dumps({"q1": "yes", "q2": "no"}))
    marked(tmp_path / "j.json", json.dumps(JUDGE))
    answers = [{"question_id": name, "hypothesis": "green"} for name in ("q1", "q2")]
    marked(tmp_path / "h.jsonl", "".join(json.dumps(answer) + "\n" for answer in answers))
    marked(
        tmp_path / "sweep.yaml",
        "name: s\ndataset: d.json\nmemories: [last-k]\nmodels: [offline/extractive]\njudges: [offline/lexical]\n",
    )
    well(command(f"{RUN.replace('last-k', 'm.yaml')} --run-id a --template t"))
    assert "\ufeff" not in (tmp_path / "results" / "a" / "prompts.jsonl").read_text()
    well(command("evaluate a --judge j.json@offline/scripted:s.json"))
    well(command("evaluate --hypotheses h.jsonl --dataset d.json --judge offline/lexical"))
    well(command("compare a --save-baseline b.json"))
    marked(tmp_path / "b.json", (tmp_path / "b.json").read_text())
    well(command("compare a --against b.json"))
    well(command("sweep sweep.yaml"))


@pytest.mark.slow
def test_byte_order_mark_before_a_data_set(tmp_path: Path) -> None:
    plain = write_dataset(tmp_path / "d.json", record("q1"), record("q2"))
    folder = tmp_path / "user_evidence" / "1_evidence"
    folder.mkdir(parents=True)
    files = [plain, real_file("locomo10.json"), write_json(folder / "plain.json", evidence_file(city_item()))]
    for file in files:
        copy = tmp_path / "marked" / "user_evidence" / "1_evidence" / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(BOM_UTF8 + file.read_bytes())
        one, other = load_dataset(file), load_dataset(copy)
        assert list(one.questions()) == list(other.questions())
        assert list(one.haystacks()) == list(other.haystacks())
        assert one.content_sha256 == other.content_sha256
        assert one.sha256 != other.sha256


@pytest.mark.slow
def test_haystack_folder_elsewhere_is_read_and_written_there(prepared: Path, command: Command, tmp_path: Path) -> None:
    elsewhere = tmp_path / "large disk"
    shutil.move(prepared / "q1", elsewhere)
    (prepared / "q1").symlink_to(elsewhere)
    well(command(f"{RUN} --run-id a"))
    well(command("verify d"))
    well(command(f"{PREPARE} working-memory --force"))
    assert (prepared / "q1").is_symlink()
    assert Fixture.open(prepared / "q1").part(DOCUMENT)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["db.json", "meta.json", "working-memory.json"]


@pytest.mark.slow
def test_part_elsewhere_is_read_and_replaced_by_a_file(prepared: Path, command: Command, tmp_path: Path) -> None:
    part, elsewhere = prepared / "q1" / "db.json", tmp_path / "db.json"
    shutil.move(part, elsewhere)
    part.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    well(command(f"{RUN} --run-id a"))
    well(command("verify d"))
    well(command(f"{PREPARE} last-k --force"))
    assert not part.is_symlink()
    assert elsewhere.read_bytes() == before


@pytest.mark.slow
def test_run_folder_elsewhere_is_gone_on_with(prepared: Path, command: Command, tmp_path: Path) -> None:
    well(command(f"{RUN} --run-id a --limit 1"))
    shutil.move(tmp_path / "results" / "a", tmp_path / "archive")
    (tmp_path / "results" / "a").symlink_to(tmp_path / "archive")
    for line in (f"{RUN} --run-id a --limit 1", "evaluate a --judge offline/lexical", "verify a", "compare a"):
        well(command(line))
    assert len(json_lines(tmp_path / "archive" / "answers.jsonl")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", ["0", "-1", "null", "1.5", '"1"', "true"])
def test_manifest_of_a_format_that_does_not_exist_is_damaged(
    prepared: Path, command: Command, tmp_path: Path, number: str
) -> None:
    well(command(f"{RUN} --run-id a"))
    manifest = tmp_path / "results" / "a" / "run.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', f'"format": {number}', 1))
    for line in ("verify a", "evaluate a --judge offline/lexical", f"{RUN} --run-id a"):
        outcome = command(line)
        assert outcome.code == 3
        assert "The manifest is damaged" in outcome.stderr
        assert "results/a/run.json" in outcome.stderr


def test_verify_names_links_that_lead_nowhere_or_astray(prepared: Path, command: Command) -> None:
    shutil.rmtree(prepared / "q1")
    (prepared / "q1").symlink_to("gone")
    outcome = command("verify d")
    assert outcome.code == 3
    assert "d/default/q1: is a broken link" in outcome.stderr
    (prepared / "q1").unlink()
    (prepared / "q1").symlink_to("q1")
    assert "d/default/q1: is a broken link" in command("verify d").stderr
    (prepared / "q1").unlink()
    (prepared / "q1").symlink_to("q2")
    outcome = command("verify d")
    assert outcome.code == 3
    assert "d/default/q1/meta.json: is another dataset's or haystack's" in outcome.stderr


@pytest.mark.slow
def test_control_characters_in_names_reach_no_terminal_and_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    data = "d\x1b[31m\x07\u202e.json"
    write_dataset(tmp_path / data, record("q1", question="What\x1b[2J\x07 \u202ecolour?"), record("q2"))
    (tmp_path / "m.yaml").write_text('preset: last-k\nname: "n\\e[31m\\x07_\\u202e$&"\n')
    lines = (
        *(f"datasets stats '{data}'", f"prepare --dataset '{data}' --memory m.yaml", f"inspect q1 --dataset '{data}'"),
        *(f"run --dataset '{data}' --memory m.yaml --model offline/extractive --run-id a",),
        *("evaluate a --judge offline/lexical", "compare a", "verify a", "report a --format latex", "report a"),
        *("report a --format md", f"retrieval --dataset '{data}' --memory bm25 --memory last-k"),
    )
    for line in lines:
        outcome = well(command(line))
        shown = outcome.stdout + outcome.stderr
        assert all(sign.isprintable() or sign in "\n\t\r" for sign in shown), line
    for name in ("report.html", "report.md", "report.tex"):
        assert not set("\x1b\x07\u202e").intersection((tmp_path / name).read_text())
    # LaTeX's fonts have no such brackets; its own commands stand for them.
    latex = (tmp_path / "report.tex").read_text()
    assert "⟨" not in latex
    assert r"$\langle$U+001B$\rangle$" in latex
