"""`export --format csv`, `jsonl` and `parquet`: one row per question, safe in a spreadsheet."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
import yaml

from longmemeval.core.tables import table as render
from longmemeval.errors import HarnessError
from longmemeval.records import Answer
from longmemeval.results.formats.export import export_questions
from tests.pipeline.graded_runs import F1, LENIENT, STRICT, grade, graded_run
from tests.pipeline.helpers import colours, folders_in
from tests.report.report_runs import HOSTILE, hostile_run, replace_answers, three_runs
from tests.support import longmemeval


def rows(file: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(file).read_bytes().decode(), newline="")))


def test_a_row_per_question_with_every_judge(tmp_path: Path) -> None:
    written = export_questions("good", folders=three_runs(tmp_path))
    assert set(written.judges) == {STRICT.id, LENIENT.id}
    assert Path(written.file) == tmp_path / "results" / "good" / "csv" / "good.csv"
    table = rows(written.file)
    assert (len(table), written.questions) == (12, 12)
    first, last = table[0], table[-1]
    assert {name: first[name] for name in first if not name.endswith("_ms")} == {
        "question_id": "q0",
        "question_type": "single-session-user",
        "ability": "fact-recall",
        "question": "What colour is my bicycle0?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "gold": "red",
        "unanswerable": "False",
        "hypothesis": "answer 0 of good",
        "status": "ok",
        f"label {STRICT.id}": "True",
        f"score {STRICT.id}": "",
        f"label {LENIENT.id}": "False",
        f"score {LENIENT.id}": "",
        # The newest judge decides, and the other one disagrees.
        "lost_at": "disputed",
        "recalled": "3",
        "cut": "1",
        "evidence_recall": "1.0",
        "top_score": "0.0",
        "prompt_tokens": "100",
        "completion_tokens": "5",
        "cost_usd": str(0.01 / 12),
        "error": "",
    }
    assert (last["ability"], last["unanswerable"], last["latency_ms"]) == ("abstention", "True", "1200.0")


def test_scores_and_missing_answers(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "d.json", 3), folders_in(tmp_path)
    graded_run(dataset, folders, "r", [0.5, None, 1.0], judge=F1)
    path = folders.results_dir / "r" / "answers.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    grade(dataset, folders, "r", {"q0": 0.5, "q1": None}, judge=F1)
    table = rows(export_questions("r", tmp_path / "out", folders=folders).file)
    assert [row[f"score {F1.id}"] for row in table] == ["0.5", "", ""]
    assert [row["status"] for row in table] == ["ok", "ok", "missing"]
    assert (table[2]["hypothesis"], table[2]["recalled"]) == ("", "")
    assert (tmp_path / "out" / "r.csv").exists()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("x")'])
def test_no_text_is_a_formula(tmp_path: Path, text: str) -> None:
    dataset, folders = colours(tmp_path / "d.json", 1, answer=text), folders_in(tmp_path)
    folder = graded_run(dataset, folders, "r", [True], judge=STRICT)
    replace_answers(folder, lambda name: Answer(name, text, "ok", top_score=-1.5))
    grade(dataset, folders, "r", {"q0": True}, judge=STRICT)
    (row,) = rows(export_questions("r", folders=folders).file)
    assert (row["hypothesis"], row["gold"]) == (f"'{text}", f"'{text}")
    # A number is none.
    assert row["top_score"] == "-1.5"


def test_any_text_survives(tmp_path: Path) -> None:
    folders = hostile_run(tmp_path)
    file = export_questions("one", folders=folders).file
    data = Path(file).read_bytes()
    assert data.count(b"\r\n") == 3
    # Control characters are shown, for a terminal would obey them.
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", data)
    shown = HOSTILE.replace("\x00", r"\x00").replace("\x07", r"\x07").replace("\x1b", r"\x1b")
    assert [row["question"] for row in rows(file)] == [shown, shown]


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_no_report_holds_control_characters(tmp_path: Path, form: str) -> None:
    hostile_run(tmp_path)
    longmemeval("report", "one", "two", "--format", form, "-o", "out", cwd=tmp_path)
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", (tmp_path / "out").read_bytes())


def test_an_ungraded_run_is_refused(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    for file in (folders.results_dir / "bad" / "metrics").iterdir():
        file.unlink()
    with pytest.raises(HarnessError, match="'bad' is not graded"):
        export_questions("bad", folders=folders)


def test_the_command_says_where_the_file_is(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    done = longmemeval("export", "bad", "--format", "csv", "--output", "out", cwd=tmp_path)
    assert done.stdout == "12 questions: out/bad.csv\n"
    assert folders.results_dir == tmp_path / "results"


@pytest.mark.slow
def test_json_lines_and_parquet_hold_the_same_rows_with_their_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    folders = three_runs(tmp_path)
    lines = export_questions("good", folders=folders, format="jsonl")
    read = [json.loads(line) for line in Path(lines.file).read_bytes().splitlines()]
    written = export_questions("good", folders=folders, format="parquet")
    table = parquet.read_table(written.file)
    assert table.to_pylist() == read
    types = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
    assert types["error"] == "string", "nothing failed, and it is text all the same"
    assert (types["recalled"], types["latency_ms"], types["unanswerable"]) == ("int64", "double", "bool")
    assert [row["question_id"] for row in rows(export_questions("good", folders=folders).file)] == [
        row["question_id"] for row in read
    ]
    assert read[0]["evidence_recall"] == 1.0
    assert read[0][f"score {STRICT.id}"] is None


def test_a_card_says_what_is_in_the_file(tmp_path: Path) -> None:
    written = export_questions("one", tmp_path / "out", folders=hostile_run(tmp_path), format="jsonl")
    card = Path(written.card).read_text()
    _, front, text = card.split("---\n", 2)
    assert yaml.safe_load(front)["configs"] == [{"config_name": "default", "data_files": "one.jsonl"}]
    first = json.loads(Path(written.file).read_bytes().splitlines()[0])
    for column in first:
        assert f"| {render.escape_markdown(column)} |" in text
    assert "not the official judge" in text
    assert "<script" not in re.sub(r"\\.", "", text)


def test_the_command_names_file_and_card(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    done = longmemeval("export", "good", "--format", "jsonl", "--results-dir", folders.results_dir, cwd=tmp_path)
    assert re.search(r"12 questions: .*good\.jsonl\n", done.stdout)
    assert re.search(r"Dataset card: .*README\.md\n", done.stdout)
