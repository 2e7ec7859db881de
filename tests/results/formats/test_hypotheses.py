"""Answers of another system: graded as they are, every selected question counts, and what does not fit is told."""

import json
from pathlib import Path

import pytest

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.formats.hypotheses import Adopted, adopt_hypotheses
from longmemeval.results.selection import Selection
from tests.pipeline.helpers import answers, colours, folders_in, manifest
from tests.support import longmemeval, tree

Lines = list[dict[str, object]]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json")


def line(question_id: str, hypothesis: object = "It is green.") -> dict[str, object]:
    return {"question_id": question_id, "hypothesis": hypothesis}


def jsonl(tmp_path: Path, *lines: dict[str, object]) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def adopt(file: Path, dataset: Dataset, selection: Selection = Selection()) -> Adopted:
    return adopt_hypotheses(file, dataset, dataset.path.parent / "results", selection=selection)


def graded(dataset: Dataset, run_id: str) -> Score:
    folders = folders_in(dataset.path.parent)
    return evaluate(run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics.overall


def test_missing_ones_count_and_unknown_ones_are_told(dataset: Dataset, tmp_path: Path) -> None:
    adopted = adopt(jsonl(tmp_path, line("q1"), line("q2", "blue"), line("q9"), line("x")), dataset)
    assert adopted.unknown == ("q9", "x")
    assert adopted.missing == ("q0", "q3")
    score = graded(dataset, adopted.run_id)
    assert (score.n, score.correct, score.not_evaluated, score.accuracy) == (4, 2, 2, 0.5)
    folders = folders_in(tmp_path)
    assert [answer["question_id"] for answer in answers(folders, adopted.run_id)] == ["q1", "q2"]
    assert manifest(folders, adopted.run_id)["totals"] == {"answered": 2, "missing": 2, "unknown": 2}
    assert verify(adopted.run_id, folders=folders).problems == ()


def test_command_tells_what_does_not_fit(dataset: Dataset, tmp_path: Path) -> None:
    file = jsonl(tmp_path, line("q1"), line("q9"))
    command = ("evaluate", "--hypotheses", file, "--dataset", dataset.path, "--judge", LEXICAL_JUDGE)
    done = longmemeval(*command, cwd=tmp_path, code=1)
    assert "1 hypothesis is ignored: the dataset does not have the question: q9" in done.stderr
    assert "3 questions are without a hypothesis, counted as not evaluated: q0, q2, q3" in done.stderr
    assert "hypotheses from mine.jsonl" in done.stdout
    whole = longmemeval(*command, "--question-id", "q1", cwd=tmp_path)
    assert "100.0%" in whole.stdout


def test_one_json_list_is_as_good_as_lines(dataset: Dataset, tmp_path: Path) -> None:
    lines = [line(f"q{number}", "green") for number in range(4)]
    (tmp_path / "list.json").write_text(json.dumps(lines, indent=1))
    of_list = adopt(tmp_path / "list.json", dataset)
    of_lines = adopt(jsonl(tmp_path, *lines), dataset)
    folders = folders_in(tmp_path)
    assert answers(folders, of_list.run_id) == answers(folders, of_lines.run_id)


def test_byte_order_mark_of_an_editor_is_passed_over(dataset: Dataset, tmp_path: Path) -> None:
    file = jsonl(tmp_path, line("q0"))
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert list(adopt(file, dataset).lines) == ["q0"]


def test_other_fields_and_blank_lines_are_passed_over(dataset: Dataset, tmp_path: Path) -> None:
    text = json.dumps(line("q1") | {"autoeval_label": {"label": True}}) + "\r\n\r\n  \n" + json.dumps(line("q2"))
    (tmp_path / "mine.jsonl").write_bytes(text.encode())
    assert adopt(tmp_path / "mine.jsonl", dataset).missing == ("q0", "q3")


def test_repeated_line_is_one_answer(dataset: Dataset, tmp_path: Path) -> None:
    adopted = adopt(jsonl(tmp_path, line("q1"), line("q1"), line("q2")), dataset)
    assert len(answers(folders_in(tmp_path), adopted.run_id)) == 2


def test_second_attempt_at_a_question_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="'q1' has two different hypotheses") as caught:
        adopt(jsonl(tmp_path, line("q1"), line("q1", "green, surely")), dataset)
    assert "first attempt" in caught.value.fix
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_same_file_again_changes_nothing_and_another_selection_is_another_run(dataset: Dataset, tmp_path: Path) -> None:
    file = jsonl(tmp_path, line("q1"), line("q2"))
    first = adopt(file, dataset)
    before = tree(tmp_path / "results")
    assert adopt(file, dataset) == first
    assert tree(tmp_path / "results") == before
    some = adopt(file, dataset, Selection(limit=2))
    assert some.run_id != first.run_id
    assert (graded(dataset, first.run_id).n, graded(dataset, some.run_id).n) == (4, 2)
    jsonl(tmp_path, line("q1"), line("q2", "other"))
    assert adopt(file, dataset).run_id not in (first.run_id, some.run_id)


SPOILT = {
    "garbage": (b'{"question_id": "q1", "hypothesis": "a"}\nnot json\n', "line 2"),
    "half a line": (b'{"question_id": "q1", "hypothesis": "a"}\n{"question_id": "q2", "hyp', "line 2"),
    "no hypothesis": (b'{"question_id": "q1"}\n', "line 1"),
    "null": (b'{"question_id": "q1", "hypothesis": null}\n', "line 1"),
    "number": (b'{"question_id": 1, "hypothesis": "a"}\n', "line 1"),
    "not UTF-8": (b'{"question_id": "q1", "hypothesis": "\xff\xfe"}\n', "line 1"),
    "list of strings": (b'["a", "b"]', "not a list of hypotheses"),
    "half a list": (b'[{"question_id": "q1", "hypothesis": "a"}', "not a list of hypotheses"),
    "empty": (b"", "holds no hypothesis"),
    "blank": (b"\n \n", "holds no hypothesis"),
    "empty list": (b"[]", "holds no hypothesis"),
    "other data set": (b'{"question_id": "x1", "hypothesis": "a"}\n', "No question id of this file"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_file_is_one_clear_error(dataset: Dataset, tmp_path: Path, name: str) -> None:
    data, told = SPOILT[name]
    (tmp_path / "mine.jsonl").write_bytes(data)
    with pytest.raises(HarnessError) as caught:
        adopt(tmp_path / "mine.jsonl", dataset)
    assert told in str(caught.value)
    assert "mine.jsonl" in caught.value.where
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_file_that_cannot_be_read_is_told(dataset: Dataset, tmp_path: Path, name: str) -> None:
    with pytest.raises(HarnessError, match="The hypothesis file cannot be read"):
        adopt(tmp_path / name, dataset)


def test_odd_file_names_make_fine_run_ids(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "..my results (final) é.jsonl"
    path.write_text(json.dumps(line("q1")))
    assert adopt(path, dataset).run_id.startswith("my-results--final----")
