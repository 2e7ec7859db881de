"""Parts stored compressed are the same parts: same hashes, read by everything, written as safely."""

import sys
from pathlib import Path

import pytest

from longmemeval.errors import FixtureError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.run_files import RunFiles
from longmemeval.storage.fixture import Fixture, tidy_fixture, write_fixture
from tests.pipeline.helpers import MODEL, colours, folders_in
from tests.storage.test_fixture import DB, OLD, content, db_part, meta_of


def test_a_compressed_part_is_read_by_the_hash_of_what_it_holds(tmp_path: Path) -> None:
    write_fixture(tmp_path, meta_of(OLD), OLD, compress=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["db.json.zst", "meta.json", "vector.json.zst"]
    assert content(tmp_path) == OLD
    assert (tmp_path / "db.json.zst").stat().st_size < len(DB)


@pytest.mark.parametrize("compress", [False, True])
def test_the_other_form_of_a_part_gives_way(tmp_path: Path, compress: bool) -> None:
    write_fixture(tmp_path, meta_of(OLD), OLD, compress=not compress)
    new = OLD | {"db": db_part("Paints.")}
    write_fixture(tmp_path, meta_of(new), {"db": new["db"]}, compress=compress)

    assert content(tmp_path) == new
    forms = {"db.json": not compress, "db.json.zst": compress}
    assert {name: (tmp_path / name).exists() for name in forms} == forms


def test_a_writer_that_dies_leaves_the_old_or_the_new_compressed_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fixture(tmp_path, meta_of(OLD), OLD, compress=True)
    new = OLD | {"db": db_part("Paints.")}

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longmemeval.storage.fixture.settle_new", die)
    with pytest.raises(KeyboardInterrupt):
        write_fixture(tmp_path, meta_of(new), {"db": new["db"]}, compress=True)
    monkeypatch.undo()

    assert content(tmp_path) == new
    tidy_fixture(tmp_path)
    assert content(tmp_path) == new
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("damaged", [b"", b"plain", None])
def test_a_damaged_compressed_part_is_named(tmp_path: Path, damaged: bytes | None) -> None:
    write_fixture(tmp_path, meta_of(OLD), OLD, compress=True)
    part = tmp_path / "db.json.zst"
    part.write_bytes(part.read_bytes()[:-3] if damaged is None else damaged)

    with pytest.raises(FixtureError, match="'db' is damaged"):
        Fixture.open(tmp_path).read_part("db")


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fixture(tmp_path, meta_of(OLD), OLD, compress=True)
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(FixtureError, match=r"install .*\[zstd\]'"):
        Fixture.open(tmp_path).read_part("db")
    folders = folders_in(tmp_path / "colours")
    with pytest.raises(FixtureError, match=r"install .*\[zstd\]"):
        prepare(colours(tmp_path / "colours.json"), ["bm25"], options=PrepareOptions(compress="zstd"), folders=folders)
    assert not folders.prepared_dir.exists()


@pytest.mark.slow
def test_a_compressed_preparation_verifies_and_answers_the_same(tmp_path: Path) -> None:
    dataset = colours(tmp_path / "colours.json")
    found = {}
    for name in ("plain", "packed"):
        folders = folders_in(tmp_path / name)
        options = PrepareOptions(jobs=1, compress="zstd" if name == "packed" else None)
        prepare(dataset, ["hybrid"], options=options, folders=folders)
        run(dataset, "hybrid", MODEL, options=RunOptions(run_id="r"), folders=folders)
        checked = verify("colours", folders=folders)
        assert checked.problems == ()
        files = RunFiles(folders.results_dir / "r")
        answers = {name: (answer.hypothesis, answer.prompt_sha256) for name, answer in files.answers.items()}
        found[name] = answers, checked.checked, files.manifest.fixtures
    assert found["plain"] == found["packed"]
    parts = {
        path.name for path in (tmp_path / "packed" / "prepared-data").rglob("*.json*") if ".cache" not in path.parts
    }
    assert parts == {"db.json.zst", "vector.json.zst", "words.json.zst", "meta.json", "prepare.jsonl"}
