import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from longmemeval.benchmarks import catalogue as catalogue_module
from longmemeval.benchmarks import registry
from longmemeval.benchmarks.catalogue import CatalogueEntry, Source
from longmemeval.cli.verbs.datasets import app
from longmemeval.core.files import sha256_bytes
from longmemeval.errors import DataError
from tests.benchmarks.convomem.files import write_folder
from tests.benchmarks.longmemeval.test_loader import make_record, write
from tests.benchmarks.test_download import BODY, FileServer


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    """A catalogue of one entry, `tiny`, and the shipped sample."""
    return use_catalogue(monkeypatch, json.dumps([make_record()]).encode(), "http://127.0.0.1:9/tiny.json")


def use_catalogue(monkeypatch: pytest.MonkeyPatch, content: bytes, url: str) -> CatalogueEntry:
    source = Source(url, "r1", len(content), sha256_bytes(content))
    entries = {
        "tiny": CatalogueEntry("tiny", "A test entry", "tiny.json", "MIT", source),
        "sample": CatalogueEntry("sample", "Shipped", "sample.json", "MIT"),
    }
    monkeypatch.setattr(catalogue_module, "catalogue", lambda: entries)
    monkeypatch.setattr(registry, "catalogue", lambda: entries)
    return entries["tiny"]


def test_list_tells_what_is_here(tiny: CatalogueEntry, tmp_path: Path) -> None:
    def statuses() -> dict[str, str]:
        result = call("list", "--data-dir", tmp_path, "--json")
        assert result.exit_code == 0
        return {entry["name"]: entry["status"] for entry in json.loads(result.stdout)}

    assert statuses()["tiny"] == "no"
    write(tmp_path / "tiny.json", make_record())
    assert statuses()["tiny"] == "yes"
    assert "tiny" in call("list", "--data-dir", tmp_path).stdout


def test_list_shows_the_whole_catalogue(tmp_path: Path) -> None:
    result = call("list", "--data-dir", tmp_path, "--json")
    entries = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert entries["longmemeval_s"]["source"]["bytes"] == 277_383_467
    assert entries["longmemeval_s_original"]["superseded_by"] == "longmemeval_s"
    words = re.findall(r"\w+", call("list", "--data-dir", tmp_path).stdout)
    assert "superseded by longmemeval_s" in " ".join(words)


@pytest.mark.slow
def test_download_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = FileServer()
    use_catalogue(monkeypatch, BODY, server.url)
    first = call("download", "tiny", "--data-dir", tmp_path)
    assert first.exit_code == 0, first.exception
    assert "hash is correct" in first.stdout
    assert (tmp_path / "tiny.json").read_bytes() == BODY
    assert "already exists" in call("download", "tiny", "--data-dir", tmp_path).stdout
    again = call("download", "tiny", "--data-dir", tmp_path, "--json")
    assert json.loads(again.stdout) == {
        "name": "tiny",
        "path": str(tmp_path / "tiny.json"),
        "downloaded": False,
        "from_cache": [],
    }
    assert len(server.ranges) == 1
    server.close()


def test_download_of_the_sample_does_nothing(tmp_path: Path) -> None:
    assert "nothing to do" in call("download", "sample", "--data-dir", tmp_path).stdout
    assert list(tmp_path.iterdir()) == []


def test_download_of_an_unknown_name() -> None:
    error = call("download", "longmemeval_z").exception
    assert isinstance(error, DataError)
    assert "Did you mean" in str(error)


def test_verify_of_a_catalogue_file(tiny: CatalogueEntry, tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.json", make_record())
    result = call("verify", "tiny", "--data-dir", tmp_path, "--json")
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout) == {
        "name": "tiny",
        "path": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_bytes(path.read_bytes()),
        "content_sha256": None,
        "pinned": True,
    }
    assert "hash match the catalogue" in call("verify", "tiny", "--data-dir", tmp_path).stdout


def test_verify_of_a_path_reads_every_record(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.json", make_record())
    document = json.loads(call("verify", path, "--json").stdout)
    assert document["sha256"] == sha256_bytes(path.read_bytes())
    assert len(document["content_sha256"]) == 64
    shown = call("verify", path).stdout
    assert document["content_sha256"] in shown
    assert "all 1 questions" in shown


def test_stats(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.json", make_record() | {"no\x1b[31mte": 1})
    document = json.loads(call("stats", path, "--json").stdout)
    assert (document["questions"], document["sessions"], document["turns"]) == (1, 3, 5)
    assert document["quirks"]["haystacks_out_of_order"] == 1
    shown = call("stats", path)
    assert shown.exit_code == 0, shown.exception
    assert "haystacks out of order" in shown.stdout
    assert "2023-05-21 09:30 to 2023-05-22 10:00" in shown.stdout
    assert "record.no\\x1b[31mte" in shown.stdout


def test_convomem_is_listed_and_says_how_to_get_it(tmp_path: Path) -> None:
    def entry() -> dict[str, object]:
        entries: list[dict[str, object]] = json.loads(call("list", "--data-dir", tmp_path, "--json").stdout)
        return next(one for one in entries if one["name"] == "convomem")

    before = entry()
    assert (before["status"], before["path"]) == ("no", str(tmp_path / "convomem"))
    assert before["licence"] == "CC BY-NC 4.0"
    assert re.search(r"convomem\s+no\s", call("list", "--data-dir", tmp_path).stdout)
    error = call("download", "convomem", "--data-dir", tmp_path).exception
    assert isinstance(error, DataError)
    assert "Salesforce/ConvoMem" in str(error)
    assert f"{tmp_path}/convomem/<category>/<n>_evidence/*.json" in str(error)
    assert not (tmp_path / "convomem").exists()
    write_folder(tmp_path / "convomem")
    assert entry()["status"] == "yes"
    assert "nothing to do" in call("download", "convomem", "--data-dir", tmp_path).stdout


def test_stats_of_convomem(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "convomem")
    document = json.loads(call("stats", folder, "--json").stdout)
    assert document["stand_in_dates"]
    assert document["groups"][0] == {
        "question_type": "abstention",
        "facets": {"evidence": 1, "context size": 2},
        "questions": 1,
    }
    shown = call("stats", folder)
    assert shown.exit_code == 0, shown.exception
    assert re.search(r"question type +evidence +context size +questions", shown.stdout)
    assert re.search(r"user-facts +2 +4 +4\s", shown.stdout)
    assert "stand-ins: the data has none" in shown.stdout
    assert "unmatched evidence texts" in shown.stdout
