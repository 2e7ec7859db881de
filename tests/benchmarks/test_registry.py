from pathlib import Path

import msgspec
import pytest

from longmemeval.benchmarks import catalogue as catalogue_module
from longmemeval.benchmarks import registry
from longmemeval.benchmarks.catalogue import CatalogueEntry, Source, catalogue, catalogue_entry, data_file
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError
from tests.benchmarks.convomem.files import batched_case, city_item, evidence_file, write_folder, write_json
from tests.benchmarks.longmemeval.test_loader import make_record, write


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    """A catalogue entry `small` whose file has 1 record; the file itself is put into `tmp_path/data`."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = write(folder / "small_file", make_record())
    source = Source("http://127.0.0.1/small", "r1", path.stat().st_size, "0" * 64)
    entry = CatalogueEntry("small", "A test entry", "small_file", "MIT", source)
    entries = {"small": entry, "sample": catalogue()["sample"]}
    monkeypatch.setattr(catalogue_module, "catalogue", lambda: entries)
    monkeypatch.setattr(registry, "catalogue", lambda: entries)
    return entry


def test_the_catalogue_lists_every_release() -> None:
    entries = catalogue()
    originals = ["longmemeval_s_original", "longmemeval_m_original", "sample"]
    assert list(entries)[:6] == ["longmemeval_s", "longmemeval_m", "longmemeval_oracle", *originals]
    for name, entry in entries.items():
        assert entry.name == name
        assert (entry.source is None) == (entry.is_folder or name == "sample")
        assert entry.repository is None or len(bytes.fromhex(entry.repository.commit)) == 20
        assert entry.superseded_by is None or entry.superseded_by in entries
        if entry.source is not None:
            assert entry.source.url.startswith("https://")
            assert f"/{entry.source.revision}/" in entry.source.url
            assert entry.source.url.endswith(f"/{entry.file}")
            assert len(bytes.fromhex(entry.source.revision)) == 20
            assert len(bytes.fromhex(entry.source.sha256)) == 32
            papers = {"locomo10": "2402.17753", "locomo-plus": "2602.10715"}
            assert papers.get(name, "2410.10813") in (entry.citation or "")


def test_files_of_the_catalogue_do_not_collide() -> None:
    files = [entry.file for entry in catalogue().values() if entry.source is not None]
    assert len(set(files)) == len(files)


def test_an_unknown_field_of_the_catalogue_is_refused() -> None:
    document = msgspec.to_builtins(catalogue()["sample"]) | {"mirror": "x"}
    with pytest.raises(msgspec.ValidationError, match="mirror"):
        msgspec.convert(document, CatalogueEntry)


def test_a_catalogue_name(small: CatalogueEntry, tmp_path: Path) -> None:
    dataset: Dataset = load_dataset("small", tmp_path / "data")
    assert (dataset.name, len(dataset)) == ("small", 1)
    assert dataset.path == data_file(small, tmp_path / "data")


def test_the_data_folder_comes_from_the_environment(
    small: CatalogueEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGMEMEVAL_DATA_DIR", str(tmp_path / "data"))
    assert len(load_dataset("small")) == 1


def test_a_file_that_is_not_downloaded(small: CatalogueEntry, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not downloaded") as caught:
        load_dataset("small", tmp_path / "elsewhere")
    message = str(caught.value)
    assert small.source is not None
    for part in ("longmemeval datasets download small", small.source.url, small.source.sha256, "elsewhere/small_file"):
        assert part in message
    assert f"{small.source.bytes:,} bytes" in message


def test_a_file_of_another_size_than_the_catalogue_says(small: CatalogueEntry, tmp_path: Path) -> None:
    path = data_file(small, tmp_path / "data")
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DataError, match="differs from the catalogue"):
        load_dataset("small", tmp_path / "data")


def test_a_path(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.json", make_record())
    assert load_dataset(path).name == load_dataset(str(path)).name == "mine"


def test_a_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine", make_record())
    monkeypatch.chdir(tmp_path)
    assert load_dataset("mine").name == "mine"


def test_a_catalogue_name_wins_over_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "longmemeval_s", make_record())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="not downloaded"):
        load_dataset("longmemeval_s")
    assert len(load_dataset("./longmemeval_s")) == len(load_dataset(Path("longmemeval_s"))) == 1


@pytest.mark.parametrize("path", ["missing.json", "missing/file", "./missing"])
def test_a_path_that_does_not_exist(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_dataset(path)


@pytest.mark.parametrize("name", ["longmemeval_x", "x" * 5000, ""])
def test_an_unknown_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"Unknown dataset.*longmemeval_"):
        load_dataset(name)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(DataError, match="Did you mean 'longmemeval_oracle'"):
        catalogue_entry("longmemeval-oracle")


def test_the_shipped_file_is_found_in_the_package_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, tree = tmp_path / "package", tmp_path / "tree"
    monkeypatch.setattr(catalogue_module, "_SHIPPED", (package, tree))
    tree.mkdir()
    write(tree / "sample.json", make_record("from_tree"))
    assert [question.question_id for question in load_dataset("sample").questions()] == ["from_tree"]
    package.mkdir()
    write(package / "sample.json", make_record("from_package"))
    assert [question.question_id for question in load_dataset("sample").questions()] == ["from_package"]
    assert load_dataset("sample").name == "sample"


def test_files_of_convomem_are_recognised(tmp_path: Path) -> None:
    case, evidence = batched_case(), evidence_file(city_item())
    folder = tmp_path / "user_evidence" / "1_evidence"
    backwards = {key: case[key] for key in reversed(case)}
    documents = [
        [case],
        case,
        [backwards],
        {"note": "x" * 3_000_000} | backwards,
        evidence,
        dict(reversed(evidence.items())),
    ]
    for number, document in enumerate(documents):
        dataset = load_dataset(write_json(folder / f"{number}.json", document))
        assert (dataset.benchmark, dataset.name) == ("convomem", str(number))
    whole = load_dataset(folder)
    assert (whole.benchmark, whole.name, len(whole)) == ("convomem", "1_evidence", 10)


def test_a_large_file_of_convomem_is_recognised_by_its_beginning(tmp_path: Path) -> None:
    path = write_json(tmp_path / "user_evidence/1_evidence/cut.json", [batched_case()])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="looks truncated"):
        load_dataset(path)
    assert len(load_dataset(write_json(path, [batched_case()]))) == 2
    elsewhere = write_json(tmp_path / "cut.json", [batched_case()])
    elsewhere.write_bytes(elsewhere.read_bytes()[:200])
    with pytest.raises(DataError, match="names the category"):
        load_dataset(elsewhere)


def test_convomem_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset("convomem", tmp_path)
    message = str(caught.value)
    for part in ("Salesforce/ConvoMem", f"{tmp_path}/convomem/<category>/<n>_evidence/*.json"):
        assert part in message
    (tmp_path / "convomem").mkdir()
    with pytest.raises(DataError, match="Salesforce/ConvoMem"):
        load_dataset("convomem", tmp_path)
    write_folder(tmp_path / "convomem")
    dataset = load_dataset("convomem", tmp_path)
    assert (dataset.name, dataset.path, len(dataset)) == ("convomem", tmp_path / "convomem", 9)
