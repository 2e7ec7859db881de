import errno
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longmemeval.core.files import (
    list_folders,
    remove_unfinished,
    safe_name,
    sha256_bytes,
    sha256_file,
    sha256_text,
    write_atomic,
)

# The hash of "abc" in FIPS 180-2, appendix B.1.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_three_hashes_agree_with_the_standard(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")

    assert sha256_bytes(b"abc") == sha256_text("abc") == sha256_file(tmp_path / "abc") == ABC


def test_write_atomic_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "part.json"

    write_atomic(path, b"old")
    write_atomic(path, b"new")

    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_content_and_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "part.json"
    write_atomic(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_that_ends_while_it_writes_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part.json"
    write_atomic(path, b"old")
    there: list[list[Path]] = []

    def end(*_: object) -> None:
        remove_unfinished()
        there.append(list(tmp_path.iterdir()))

    monkeypatch.setattr(os, "fsync", end)
    with pytest.raises(FileNotFoundError):
        write_atomic(path, b"new")
    assert there == [[path]]
    # What was finished before is not touched.
    remove_unfinished()
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_is_really_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part.json"
    write_atomic(path, b"old")
    temporary = tmp_path / "temporary"

    def on_a_full_disk(**_: object) -> tuple[int, str]:
        temporary.touch()
        return os.open("/dev/full", os.O_WRONLY), str(temporary)

    monkeypatch.setattr("tempfile.mkstemp", on_a_full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new" * 10_000)

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("answer_4be1b6b4_2", "answer_4be1b6b4_2"),
        ("conv-26", "conv-26"),
        ("../../x", "%2E.%2F..%2Fx"),
        (".", "%2E"),
        ("..", "%2E."),
        (".hidden", "%2Ehidden"),
        ("v1.2", "v1.2"),
        ("a/b\\c", "a%2Fb%5Cc"),
        ("Zürich", "Z%C3%BCrich"),
        ("a\x00b", "a%00b"),
    ],
)
def test_safe_name_of_known_ids(identifier: str, name: str) -> None:
    assert safe_name(identifier) == name


identifiers = st.text(max_size=40) | st.text(alphabet="./%2E0~\\", max_size=8) | st.text(alphabet="aé", min_size=100)


@pytest.mark.slow
@given(identifiers)
def test_a_safe_name_is_one_visible_file_in_its_folder(identifier: str) -> None:
    name = safe_name(identifier)

    assert 0 < len(name) <= 120
    assert name.isascii()
    assert not name.startswith(".")
    assert not set(name) & set("/\\\x00: ")
    assert (Path("/base") / name).parent == Path("/base")


@example("", "\x00")
@example("a" * 200, safe_name("a" * 200))
@given(identifiers, identifiers)
def test_distinct_ids_keep_distinct_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_long_ids_that_differ_at_the_end_keep_distinct_names(tmp_path: Path) -> None:
    names = {safe_name("é" * 400 + ending) for ending in ("a", "b", "")}

    assert len(names) == 3
    for name in names:
        (tmp_path / name).touch()


def test_list_folders_passes_over_files_and_hidden_folders(tmp_path: Path) -> None:
    for name in ("b", "a", ".cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()

    assert [folder.name for folder in list_folders(tmp_path)] == ["a", "b"]
    assert list(list_folders(tmp_path / "absent")) == []
