"""Rankings as files for trec_eval, read back the way it reads them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Granularity, RetrievalProtocol
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.results.formats.export_trec import export_trec
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation, open_conversations
from tests.pipeline.helpers import answer_all, colour_record, folders_in, prepared_colours
from tests.support import write_dataset


def ranked(folders: Folders, dataset: LongMemEvalDataset, level: Granularity, protocol: RetrievalProtocol) -> None:
    options = RetrievalOptions(protocol=protocol, granularity=level, run_id="r")
    retrieve(dataset, ["bm25" if protocol == "official" else "last-k"], options=options, folders=folders)


def read(path: str) -> list[list[str]]:
    return [line.split() for line in Path(path).read_text().splitlines()]


def mean_reciprocal_rank(run_file: str, qrels_file: str) -> float:
    """As trec_eval: documents by falling score, whatever the order and the ranks of the lines."""
    relevant = {(question, document) for question, _, document, label in read(qrels_file) if label == "1"}
    by_question: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for question, _, document, _, score, _ in read(run_file):
        by_question[question].append((-float(score), document))
    values = []
    for question in {question for question, _ in relevant}:
        places = [(question, document) in relevant for _, document in sorted(by_question[question])]
        values.append(1 / (places.index(True) + 1))
    return sum(values) / len(values)


@pytest.mark.parametrize("level", ["session", "turn"])
def test_an_evaluator_finds_the_same_figures(tmp_path: Path, level: Granularity) -> None:
    dataset, folders = prepared_colours(tmp_path, 3)
    report = retrieve(
        dataset, ["last-k"], options=RetrievalOptions(granularity=level, measures=("mrr",), run_id="r"), folders=folders
    )
    written = export_trec("r", folders=folders)
    assert Path(written.run_file) == folders.results_dir / "r" / "trec" / "r.run"
    assert (written.questions, written.without_gold) == (3, 0)
    ours = report.runs[0].results[0].measures["mrr"].mean
    assert mean_reciprocal_rank(written.run_file, written.qrels_file) == ours


def test_lines(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    ranked(folders, LongMemEvalDataset(dataset.path), "session", "standard")
    written = export_trec("r", tmp_path / "out", folders=folders)
    assert Path(written.run_file).read_text() == ("q0 Q0 filler_2 1 3 r\nq0 Q0 answer_1 2 2 r\nq0 Q0 filler_1 3 1 r\n")
    assert Path(written.qrels_file).read_text() == "q0 0 answer_1 1\n"


def test_ids_become_words_and_stay_distinct(tmp_path: Path) -> None:
    names = ["a b", "a%20b", "answer\u00a0\n1"]
    record = colour_record(0, question_id="q 0", haystack_session_ids=names, answer_session_ids=[names[2]])
    dataset, folders = LongMemEvalDataset(write_dataset(tmp_path / "d.json", record)), folders_in(tmp_path)
    ranked(folders, dataset, "turn", "official")
    written = export_trec("r", folders=folders)
    lines = read(written.run_file)
    assert {len(line) for line in lines} == {6}
    assert sorted(line[2] for line in lines) == ["a%20b_1", "a%2520b_1", "noans%C2%A0%0A1_1"]
    assert {line[0] for line in lines} == {"q%200"}


def test_official_gold_and_repeated_ids(tmp_path: Path) -> None:
    record = colour_record(0, haystack_session_ids=["twice", "answer_1", "twice"])
    no_gold = colour_record(1, haystack_session_ids=["a", "b", "c"], answer_session_ids=[])
    dataset, folders = LongMemEvalDataset(write_dataset(tmp_path / "d.json", record, no_gold)), folders_in(tmp_path)
    ranked(folders, dataset, "session", "official")
    written = export_trec("r", folders=folders)
    mine = [line for line in read(written.run_file) if line[0] == "q0"]
    assert sorted(line[2] for line in mine) == ["answer_1", "twice"]
    assert [line[3:5] for line in mine] == [["1", "2"], ["2", "1"]]
    assert read(written.qrels_file) == [["q0", "0", "answer_1", "1"]]
    assert (written.questions, written.without_gold) == (2, 1)


def test_locomo_evidence_is_the_repaired_one(tmp_path: Path) -> None:
    dataset, folders = open_conversations(tmp_path, make_conversation()), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    retrieve(dataset, ["last-k"], options=RetrievalOptions(run_id="r"), folders=folders)
    written = export_trec("r", folders=folders)
    qrels = [(question, turn) for question, _, turn, _ in read(written.qrels_file)]
    assert qrels == [
        ("conv-1/q0", "session_10:0"),
        ("conv-1/q0", "session_2:1"),
        ("conv-1/q1", "session_10:2"),
        ("conv-1/q3", "session_2:0"),
        ("conv-1/q4", "session_2:1"),
    ]
    assert written.without_gold == 1


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2)
    answer_all(dataset, folders, "answers")
    with pytest.raises(HarnessError, match="Run 'answers' holds no rankings"):
        export_trec("answers", folders=folders)
    with pytest.raises(HarnessError, match=r"Unknown run 'r'.*Valid: answers"):
        export_trec("r", folders=folders)
    ranked(folders, LongMemEvalDataset(dataset.path), "session", "standard")
    journal = folders.results_dir / "r" / "rankings.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(HarnessError, match=r"rankings\.jsonl: was changed after the run ended"):
        export_trec("r", folders=folders)
    manifest = json.loads((folders.results_dir / "r" / "run.json").read_text())
    unfinished = {**manifest, "status": "running", "ended_at": "", "files": {}}
    (folders.results_dir / "r" / "run.json").write_text(json.dumps(unfinished))
    with pytest.raises(HarnessError, match="not finished: 1 of 2 questions are not ranked"):
        export_trec("r", folders=folders)
    assert not (folders.results_dir / "r" / "trec").exists()


def test_gold_is_read_when_exporting(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    ranked(folders, LongMemEvalDataset(dataset.path), "session", "standard")
    moved = dataset.path.rename(tmp_path / "moved.json")
    with pytest.raises(HarnessError, match="Name the file with --dataset"):
        export_trec("r", folders=folders)
    assert export_trec("r", dataset=str(moved), folders=folders).questions == 1
    assert "answer_session_ids" not in json.loads((folders.results_dir / "r" / "run.json").read_text())
