"""What is wrong with a file of ConvoMem is told with its place."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.convomem.loader import ConvoMemDataset
from longmemeval.errors import DataError
from tests.benchmarks.convomem import files
from tests.benchmarks.convomem.files import (
    CASE,
    EGGS,
    SPOKEN,
    evidence_file,
    item,
    write_json,
)


def test_a_record_that_is_no_object(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, [files.batched_case(), "text"])
    with pytest.raises(DataError, match=r"Expected object, got str.*record 2"):
        ConvoMemDataset(path)


def test_faults_of_an_evidence_file_name_the_item(tmp_path: Path) -> None:
    path = tmp_path / "user_evidence/1_evidence/p1.json"
    broken = item("Where?", "Oslo", [], {"messages": []})
    dataset = ConvoMemDataset(write_json(path, evidence_file(files.city_item(), broken)))
    assert len(dataset.haystack("user_evidence-1e-p1-0").sessions) == 1
    with pytest.raises(DataError, match=r"no message .*p1\.json, .*evidence_items\[1\]\.conversations\[0\]\.messages"):
        dataset.haystack("user_evidence-1e-p1-1")


def test_a_case_that_states_its_size_is_no_evidence_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, {"evidenceItems": [files.city_item()], "contextSize": 4})
    with pytest.raises(DataError, match="'conversations' is missing"):
        ConvoMemDataset(path)


@pytest.mark.parametrize("document", [evidence_file(), [files.case_of(conversations=[EGGS])]])
def test_a_data_set_without_questions(tmp_path: Path, document: object) -> None:
    with pytest.raises(DataError, match="has no question"):
        ConvoMemDataset(write_json(tmp_path / SPOKEN, document))


@pytest.mark.parametrize("document", [[files.batched_case()], evidence_file(files.pets_item())])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_told_with_its_size(tmp_path: Path, document: object, share: float) -> None:
    path = write_json(tmp_path / SPOKEN, document)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    for place in (path, tmp_path):
        with pytest.raises(DataError, match=rf"looks truncated.*{path.stat().st_size:,} bytes.*batched_000"):
            ConvoMemDataset(place)


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, [files.batched_case()])
    path.write_bytes(path.read_bytes().replace(b"Seven minutes", b"Seven \xff"))
    with pytest.raises(DataError, match=r"not valid Unicode.*conversations\[1\]"):
        ConvoMemDataset(path).haystack(CASE)


def test_two_files_that_give_the_same_ids(tmp_path: Path) -> None:
    first = write_json(tmp_path / "one" / SPOKEN, [files.batched_case()])
    second = write_json(tmp_path / "two" / SPOKEN, [files.batched_case()])
    with pytest.raises(DataError, match=rf"same haystack id, '{CASE}', comes from {first}.*{second}"):
        ConvoMemDataset(tmp_path)


def test_a_file_name_that_makes_no_id(tmp_path: Path) -> None:
    path = write_json(tmp_path / "user_evidence/1_evidence/a\nb.json", [files.batched_case()])
    with pytest.raises(DataError, match="cannot be printed"):
        ConvoMemDataset(path)


@pytest.mark.parametrize("place", ["one.json", "1_evidence/one.json"])
def test_a_file_in_no_category(tmp_path: Path, place: str) -> None:
    path = write_json(tmp_path / "user_evidnce" / place, [files.batched_case()])
    with pytest.raises(
        DataError, match=r"names the category.*<category>/<n>_evidence/.*mean 'user_evidence'"
    ) as caught:
        ConvoMemDataset(path)
    assert str(path) in str(caught.value)


def test_a_misspelt_category_beside_good_ones_is_not_passed_over(tmp_path: Path) -> None:
    files.write_folder(tmp_path)
    write_json(tmp_path / "changing_evidense/2_evidence/p1.json", evidence_file(files.pets_item()))
    with pytest.raises(DataError, match=r"names the category.*Did you mean 'changing_evidence'"):
        ConvoMemDataset(tmp_path)


def test_a_folder_without_files_of_convomem(tmp_path: Path) -> None:
    write_json(tmp_path / "filler_conversations" / "one.json", [EGGS])
    with pytest.raises(DataError, match=r"no file of ConvoMem.*<category>/<n>_evidence/\*\.json.*preference_evidence"):
        ConvoMemDataset(tmp_path)
