"""Folders of ConvoMem: ids, links, and hashes that see every change."""

import hashlib
from pathlib import Path

import pytest

from longmemeval.benchmarks.convomem.loader import ConvoMemDataset
from longmemeval.benchmarks.data_files import problem_of_id
from longmemeval.core.files import sha256_bytes
from tests.benchmarks.convomem import files
from tests.benchmarks.convomem.files import (
    CASE,
    SPOKEN,
    evidence_file,
    read_everything,
    write_json,
)


def test_a_folder(tmp_path: Path) -> None:
    dataset = ConvoMemDataset(files.write_folder(tmp_path / "v1.0"))
    assert (dataset.name, len(dataset)) == ("v1.0", 9)
    assert [haystack.haystack_id for haystack in dataset.haystacks()] == [
        "abstention_evidence-one-0",
        "preference_evidence-1e-batched_000-0",
        "user_evidence-1e-p1_Nurse-0",
        "user_evidence-1e-p1_Nurse-1",
        "user_evidence-2e-batch-batched_000-0",
        "user_evidence-2e-batch-batched_000-1",
    ]
    ids = [question.question_id for question in dataset.questions()]
    assert len(set(ids)) == 9
    assert not any(problem_of_id(question.haystack_id) for question in dataset.questions())
    assert dataset.passed_over == (tmp_path / "v1.0" / "dataset_info.json",)
    assert not any(".cache" in str(file) for file in dataset.files)


@pytest.mark.parametrize("inside", ["user_evidence", "user_evidence/2_evidence", "user_evidence/2_evidence/batch"])
def test_a_folder_inside_gives_the_same_ids(tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {question.question_id for question in ConvoMemDataset(files.write_folder(tmp_path)).questions()}
    monkeypatch.chdir(tmp_path / inside)
    part = ConvoMemDataset(Path())
    assert part.name == Path(inside).name
    assert {question.question_id for question in part.questions()} <= whole
    read_everything(part)


def test_the_innermost_category_counts(tmp_path: Path) -> None:
    folder = files.write_folder(tmp_path / "preference_evidence" / "7_evidence" / "copy")
    gold = ConvoMemDataset(folder / "abstention_evidence/one.json").gold("abstention_evidence-one-0/q0")
    assert (gold.abstention, gold.facets["evidence"]) == (True, 1)


def test_more_files_than_stay_open(tmp_path: Path) -> None:
    for number in range(20):
        write_json(tmp_path / f"user_evidence/1_evidence/p{number:02}.json", evidence_file(files.city_item()))
    dataset = ConvoMemDataset(tmp_path)
    assert len(dataset) == 20
    ids = [question.question_id for question in dataset.questions()]
    for question_id in reversed(ids):
        assert dataset.gold(question_id).evidence_turns == ("c-oslo:0",)


def test_linked_files_keep_the_names_of_their_folders(tmp_path: Path) -> None:
    blob = write_json(tmp_path / "blobs" / "0a1b2c", [files.batched_case()])
    link = tmp_path / SPOKEN
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    assert next(ConvoMemDataset(link).questions()).haystack_id == CASE
    assert len(ConvoMemDataset(tmp_path)) == 2


def test_hashes_of_a_folder(tmp_path: Path) -> None:
    folder = files.write_folder(tmp_path / "a")
    names = [
        "abstention_evidence/one.json",
        "preference_evidence/1_evidence/batched_000.json",
        "user_evidence/1_evidence/p1_Nurse.json",
        "user_evidence/2_evidence/batch/batched_000.json",
    ]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    before = ConvoMemDataset(folder)
    assert before.sha256 == sha256_bytes("".join(lines).encode())
    again = ConvoMemDataset(files.write_folder(tmp_path / "b"))
    assert (again.sha256, again.content_sha256) == (before.sha256, before.content_sha256)
    (tmp_path / "b" / names[0]).rename(tmp_path / "b" / "abstention_evidence/two.json")
    renamed = ConvoMemDataset(tmp_path / "b")
    assert renamed.sha256 != before.sha256
    assert renamed.content_sha256 != before.content_sha256
