"""`datasets download beam-…`: from a repository of the same layout over HTTP, by git, resumed file by file."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from longmemeval.benchmarks import catalogue as catalogue_module
from longmemeval.benchmarks import registry
from longmemeval.benchmarks.beam.loader import BeamDataset
from longmemeval.benchmarks.beam.protocol import ANSWERING_FILE, answering_text, official_wording
from longmemeval.benchmarks.catalogue import CatalogueEntry, catalogue
from longmemeval.benchmarks.download import download
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.cli.verbs.datasets import app
from longmemeval.errors import DataError, IntegrityError
from tests.benchmarks.beam.official import clone, official_texts
from tests.benchmarks.git_server import GitServer, published
from tests.conftest import real_file

CHATS = Path("beam") / "chats" / "100K"
FILES = 8
"""Of two conversations, one of them cut, and of the authors' code."""


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a repository of the authors' layout: the two real conversations, and files nobody wants."""
    root = tmp_path_factory.mktemp("published")
    shutil.copytree(real_file("beam/chats"), root / "BEAM" / "chats")
    (root / "BEAM" / "chats" / "100K" / "5" / "plan.txt").write_text("The answers.")
    clone(root / "BEAM", official_texts())
    return root, published(root, "BEAM")


@pytest.fixture
def server(commit: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = GitServer(commit[0])
    yield server
    server.close()


@pytest.fixture
def entry(server: GitServer, commit: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    """`beam-100k` of the catalogue, published by the server; the names of the catalogue are still there."""
    entries = catalogue()
    for name in ("beam-100k", "beam-100k-full"):
        repository = entries[name].repository
        assert repository
        there = replace(repository, url=f"{server.url}/BEAM", commit=commit[1])
        entries[name] = replace(entries[name], repository=there)
    monkeypatch.setattr(catalogue_module, "catalogue", lambda: entries)
    monkeypatch.setattr(registry, "catalogue", lambda: entries)
    return entries["beam-100k"]


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def status(folder: Path) -> str:
    listed = json.loads(call("list", "--data-dir", folder, "--json").stdout)
    return str({one["name"]: one["status"] for one in listed}["beam-100k"])


def test_what_is_wanted_comes_and_nothing_else(entry: CatalogueEntry, server: GitServer, tmp_path: Path) -> None:
    assert status(tmp_path) == "no"
    done = call("download", "beam-100k", "--data-dir", tmp_path)
    assert "beam-100k is downloaded and its hash is correct" in " ".join(done.stdout.split()), done.exception
    files = [path for path in (tmp_path / "beam").rglob("*") if path.is_file() and ".git" not in path.parts]
    assert len(files) == FILES
    for name in ("5/chat.json", "5/chat_trunecated.json", "15/probing_questions/probing_questions.json"):
        assert (tmp_path / CHATS / name).read_bytes() == real_file(f"beam/chats/100K/{name}").read_bytes()
    dataset = load_dataset("beam-100k", tmp_path)
    assert isinstance(dataset, BeamDataset)
    assert (dataset.name, len(dataset)) == ("beam-100k", 40)
    assert dataset.content_sha256 == load_dataset(real_file("beam/chats/100K")).content_sha256
    assert official_wording(tmp_path / "beam")
    assert answering_text("long-context", tmp_path / "beam").endswith("{query}")
    asked = server.packs
    for name in ("beam-100k", "beam-100k-full"):
        assert "already exists; nothing to do" in call("download", name, "--data-dir", tmp_path).stdout
    assert (server.packs, status(tmp_path)) == (asked, "yes")


def test_a_download_that_was_cut_goes_on_where_it_was(entry: CatalogueEntry, server: GitServer, tmp_path: Path) -> None:
    server.refuse_after = 4
    with pytest.raises(DataError, match=r"cannot be downloaded: .*503") as cut:
        download(entry, tmp_path, pause=0)
    assert "Try again, which continues from here" in cut.value.fix
    kept = [path for path in (tmp_path / "beam").rglob("*") if path.is_file() and ".git" not in path.parts]
    # git leaves an empty file where it got no bytes, and there is the mark of the download.
    there = len([path for path in kept if path.stat().st_size])
    assert 0 < there < FILES
    # Part of a data set is never taken for all of it.
    assert status(tmp_path) == "in part"
    with pytest.raises(DataError, match="is only partly downloaded") as partly:
        load_dataset("beam-100k", tmp_path)
    assert "datasets download beam-100k" in partly.value.fix
    server.refuse_after, before, told = None, server.packs, list[tuple[int, int]]()
    download(entry, tmp_path, on_progress=lambda done, total: told.append((done, total)), pause=0)
    assert (told[0], told[-1]) == ((there, FILES), (FILES, FILES))
    assert server.packs - before == FILES - there
    assert len(load_dataset("beam-100k", tmp_path)) == 40


def test_verify_finds_a_changed_file_and_download_mends_it(
    entry: CatalogueEntry, server: GitServer, tmp_path: Path
) -> None:
    download(entry, tmp_path, pause=0)
    assert call("verify", "beam-100k", "--data-dir", tmp_path).exit_code == 0
    changed = tmp_path / CHATS / "15" / "chat.json"
    changed.write_text(changed.read_text().replace("March", "April", 1))
    refused = call("verify", "beam-100k", "--data-dir", tmp_path).exception
    assert isinstance(refused, IntegrityError)
    assert str(refused.where) == str(changed)
    changed.unlink()
    download(entry, tmp_path, pause=0)
    assert changed.read_bytes() == real_file("beam/chats/100K/15/chat.json").read_bytes()
    (tmp_path / "beam" / ANSWERING_FILE).unlink()
    # Its own words are a part of it: an older clone lacks those of the answering protocol.
    assert "is downloaded" in call("download", "beam-100k", "--data-dir", tmp_path).stdout


def test_what_the_server_does_not_have_is_said_at_once(
    entry: CatalogueEntry, server: GitServer, tmp_path: Path
) -> None:
    assert entry.repository
    wrong = (
        (replace(entry.repository, commit="0" * 40), "not our ref"),
        (replace(entry.repository, url=f"{server.url}/nothing"), "not found"),
        (replace(entry.repository, files=("chats/2M/*/chat.json",)), "has no file chats/2M"),
    )
    for number, (repository, said) in enumerate(wrong):
        with pytest.raises(DataError, match=said) as refused:
            # Asked again it would wait for 30 seconds.
            download(replace(entry, repository=repository), tmp_path / str(number), pause=30)
        assert refused.value.where == repository.url


def test_without_git_it_says_what_to_put_where(
    entry: CatalogueEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="fetched with git, which is not installed") as refused:
        download(entry, tmp_path)
    assert "chats/100K/*/chat.json" in refused.value.fix
