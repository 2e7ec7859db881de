"""Whether data is here and as it was published, asked from Python."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.catalogue import CatalogueEntry, Source
from longmemeval.benchmarks.registry import presence, verify_data
from longmemeval.core.files import sha256_file
from longmemeval.errors import DataError, IntegrityError
from tests.benchmarks.convomem.files import write_folder
from tests.benchmarks.longmemeval.test_loader import make_record, write
from tests.benchmarks.test_cli_datasets import tiny

__all__ = ["tiny"]


def test_what_is_here_is_told_by_size(tiny: CatalogueEntry, tmp_path: Path) -> None:
    assert presence(tiny, tmp_path) == "no"
    write(tmp_path / "tiny.json", make_record())
    assert presence(tiny, tmp_path) == "yes"
    write(tmp_path / "tiny.json", make_record(), make_record("q2"))
    assert presence(tiny, tmp_path) == "damaged"
    assert presence(CatalogueEntry("sample", "Shipped", "sample.json"), tmp_path) == "shipped"
    assert presence(CatalogueEntry("lost", "Shipped", "lost.json"), tmp_path) == "missing"


def test_a_pinned_file_is_compared_by_hash_and_not_read(tiny: CatalogueEntry, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.json", make_record())
    found = verify_data("tiny", tmp_path)
    assert (found.path, found.bytes, found.sha256) == (str(path), path.stat().st_size, sha256_file(path))
    assert (found.pinned, found.content_sha256, found.questions) == (True, None, None)


@pytest.mark.parametrize(("old", "new", "expected"), [("Oslo", "Rome", "has the sha256"), ("Oslo", "Bergen", "bytes")])
def test_changed_bytes_are_found(tiny: CatalogueEntry, tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = write(tmp_path / "tiny.json", make_record())
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(IntegrityError, match=expected) as refused:
        verify_data("tiny", tmp_path)
    assert refused.value.exit_code == 3


def test_an_absent_file_and_an_unknown_name_are_refused(tiny: CatalogueEntry, tmp_path: Path) -> None:
    assert isinstance(tiny.source, Source)
    with pytest.raises(DataError, match="datasets download tiny"):
        verify_data("tiny", tmp_path)
    with pytest.raises(DataError, match="Did you mean 'tiny'"):
        verify_data("tinny", tmp_path)


def test_every_record_of_a_path_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.json", make_record())
    found = verify_data(str(path), tmp_path)
    assert (found.questions, found.pinned, found.bytes) == (1, False, path.stat().st_size)
    write(path, make_record(), make_record("bad", haystack_sessions=[]))
    with pytest.raises(DataError, match="question 'bad'"):
        verify_data(str(path), tmp_path)


def test_every_file_of_a_folder_is_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "convomem")
    files = [path for path in folder.rglob("*_evidence/**/*.json") if ".cache" not in path.parts]
    found = verify_data("convomem", tmp_path)
    assert found.bytes == sum(path.stat().st_size for path in set(files))
    assert (found.questions, found.pinned) == (9, False)
    (folder / "user_evidence/1_evidence/p1_Nurse.json").write_text('{"evidence_items": [{}]}')
    with pytest.raises(DataError, match=r"evidence_items\[0\]\.question"):
        verify_data(str(folder), tmp_path)
