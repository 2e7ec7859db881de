"""A data set that lies in the Hugging Face cache is copied from there by its hash; any other file there is not."""

import hashlib
import json
from pathlib import Path

import pytest

from longmemeval.benchmarks.download import cache_folder, cached_copy
from tests.benchmarks.test_cli_datasets import call, use_catalogue
from tests.benchmarks.test_download import BODY, FileServer, make_entry

SHA256 = hashlib.sha256(BODY).hexdigest()
OTHER = BODY[:-1] + b"x"
"""Of the same size."""


def cached(cache: Path, data: bytes, *, blob: str = SHA256, links: bool = True) -> Path:
    """A file as the hub's clients store it: in blobs with a link to it, or, where links cannot be, in the snapshot."""
    repository = cache / "datasets--someone--questions"
    link = repository / "snapshots" / f"revision of {blob}" / "data" / "file.json"
    stored = repository / "blobs" / blob if links else link
    for path in (stored, link):
        path.parent.mkdir(parents=True, exist_ok=True)
    stored.write_bytes(data)
    if links:
        link.symlink_to(Path("../../../blobs") / blob)
    return stored


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home of hf"))
    return tmp_path / "home of hf" / "hub"


@pytest.mark.parametrize(("blob", "links"), [(SHA256, True), ("a-git-hash", True), ("", False)])
def test_it_is_found_wherever_the_cache_has_it(cache: Path, blob: str, links: bool) -> None:
    source = make_entry("http://127.0.0.1:9/none").source
    assert source is not None
    assert cached_copy(source) is None, "there is no cache yet"
    (cache / "models--someone--a-model" / "blobs").mkdir(parents=True)
    (cache / "models--someone--a-model" / "blobs" / SHA256).write_bytes(BODY)
    assert cached_copy(source) is None, "that is no data set"
    stored = cached(cache, BODY, blob=blob, links=links)
    assert cached_copy(source) == stored


def test_the_folder_is_the_one_that_the_hubs_clients_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert cache_folder() == tmp_path / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", "~/own")
    assert cache_folder() == tmp_path / "own"


def test_the_command_copies_it_and_asks_no_server(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = FileServer()
    use_catalogue(monkeypatch, BODY, server.url)
    stored = cached(cache, BODY)
    data = tmp_path / "data"
    data.mkdir()
    (data / "tiny.json.part").write_bytes(BODY[:100])
    done = call("download", "tiny", "--data-dir", data)
    assert done.exit_code == 0, done.exception
    assert f"Copied from the Hugging Face cache: {stored}" in done.stdout.replace("\n", "")
    assert (data / "tiny.json").read_bytes() == BODY
    assert [path.name for path in data.iterdir()] == ["tiny.json"]
    stored.unlink()
    assert (data / "tiny.json").read_bytes() == BODY, "it is a copy: clearing the cache takes nothing away"
    cached(cache, BODY, blob="again")
    again = call("download", "tiny", "--data-dir", tmp_path / "second", "--json")
    assert json.loads(again.stdout)["from_cache"] == [str(cache / "datasets--someone--questions" / "blobs" / "again")]
    assert server.ranges == []
    server.close()


@pytest.mark.slow
def test_a_file_with_other_bytes_is_not_taken(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its name says: a blob under the right hash that was cut or changed."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = FileServer()
    use_catalogue(monkeypatch, BODY, server.url)
    cached(cache, OTHER)
    assert call("download", "tiny", "--data-dir", tmp_path / "data").exit_code == 0
    assert (tmp_path / "data" / "tiny.json").read_bytes() == BODY
    assert len(server.ranges) == 1
    server.close()
