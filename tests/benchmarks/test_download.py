import hashlib
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from longmemeval.benchmarks.catalogue import CatalogueEntry, Source, data_file
from longmemeval.benchmarks.download import download, is_intact
from longmemeval.errors import DataError

BODY = bytes(range(256)) * 12_000


class FileServer:
    """Serves `body` on the loopback; each of `faults` spoils one request, in order."""

    def __init__(self) -> None:
        self.body = BODY
        self.faults: list[Callable[[BaseHTTPRequestHandler], None] | None] = []
        self.honours_ranges = True
        self.ranges: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.ranges.append(self.headers.get("Range"))
                fault = outer.faults.pop(0) if outer.faults else None
                (fault or outer.serve)(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/file.json"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, handler: BaseHTTPRequestHandler, sent: int | None = None) -> None:
        """Answer as a good server does, but cut the connection after `sent` bytes of the body."""
        match = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(match[1]) if match and self.honours_ranges else 0
        if start and start >= len(self.body):
            handler.send_response(416)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        handler.send_header("Content-Length", str(len(self.body) - start))
        handler.end_headers()
        handler.wfile.write(self.body[start:][:sent])

    def cut_after(self, sent: int) -> Callable[[BaseHTTPRequestHandler], None]:
        return lambda handler: self.serve(handler, sent)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def status(code: int, retry_after: str | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        if retry_after:
            handler.send_header("Retry-After", retry_after)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


class Setting(NamedTuple):
    """A server, the entry that points at it, and a folder to download into."""

    server: FileServer
    entry: CatalogueEntry
    folder: Path
    client: httpx.Client

    @property
    def path(self) -> Path:
        return data_file(self.entry, self.folder)

    @property
    def part(self) -> Path:
        return self.path.with_name("file.json.part")

    def download(self) -> Path:
        return download(self.entry, self.folder, client=self.client, pause=0.01)


def make_entry(url: str) -> CatalogueEntry:
    source = Source(url, "r1", len(BODY), hashlib.sha256(BODY).hexdigest())
    return CatalogueEntry("tiny", "A test entry", "file.json", "MIT", source)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Setting]:
    server = FileServer()
    with httpx.Client(trust_env=False, timeout=5.0) as client:
        yield Setting(server, make_entry(server.url), tmp_path / "new" / "folder", client)
    server.close()


def test_a_whole_download(at: Setting) -> None:
    seen: list[tuple[int, int]] = []
    path = download(at.entry, at.folder, client=at.client, on_progress=lambda *done: seen.append(done))
    assert path == at.path
    assert path.read_bytes() == BODY
    assert not at.part.exists()
    assert seen[-1] == (len(BODY), len(BODY))
    assert seen == sorted(seen)


def test_a_file_that_is_there_is_not_fetched_again(at: Setting) -> None:
    at.download()
    at.download()
    assert at.server.ranges == [None]


def test_a_file_with_other_bytes_is_replaced(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.path.write_bytes(BODY[:-1] + b"x")
    assert at.entry.source is not None
    assert not is_intact(at.path, at.entry.source)
    at.download()
    assert at.path.read_bytes() == BODY


@pytest.mark.slow
def test_a_cut_connection_is_resumed_within_one_call(at: Setting) -> None:
    at.server.faults = [at.server.cut_after(2_000_000), at.server.cut_after(500_000)]
    assert at.download().read_bytes() == BODY
    assert at.server.ranges[0] is None
    starts = [int(text.removeprefix("bytes=").removesuffix("-")) for text in at.server.ranges[1:] if text]
    assert starts == [2_000_000, 2_500_000]


def test_a_part_of_an_earlier_call_is_resumed(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.part.write_bytes(BODY[:1000])
    assert at.download().read_bytes() == BODY
    assert at.server.ranges == ["bytes=1000-"]


def test_a_part_that_is_whole_needs_no_request(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.part.write_bytes(BODY)
    assert at.download().read_bytes() == BODY
    assert at.server.ranges == []


def test_a_server_that_ignores_ranges_is_read_from_the_start(at: Setting) -> None:
    at.server.honours_ranges = False
    at.server.faults = [at.server.cut_after(1_500_000)]
    assert at.download().read_bytes() == BODY
    assert len(at.server.ranges) == 2


def test_a_wrong_hash_removes_the_part(at: Setting) -> None:
    at.server.body = BODY[:-1] + b"x"
    with pytest.raises(DataError, match="sha256 is") as caught:
        at.download()
    assert at.entry.source is not None
    assert at.entry.source.sha256 in str(caught.value)
    assert list(at.folder.iterdir()) == []


def test_a_part_with_wrong_bytes_does_not_stay(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.part.write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="sha256 is"):
        at.download()
    assert at.download().read_bytes() == BODY


@pytest.mark.parametrize("body", [BODY[:-5], BODY + b"x"])
def test_a_file_of_another_size_is_refused_unread(at: Setting, body: bytes) -> None:
    at.server.body = body
    with pytest.raises(DataError, match=rf"offers {len(body):,} bytes, not {len(BODY):,}"):
        at.download()
    assert list(at.folder.iterdir()) == []


def test_a_body_of_unknown_length_that_does_not_end_is_stopped(at: Setting) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(BODY * 2)

    at.server.faults = [endless]
    with pytest.raises(DataError, match="more than"):
        at.download()
    assert list(at.folder.iterdir()) == []


def test_a_part_beyond_the_end_of_the_servers_file_starts_over(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.part.write_bytes(BODY[:2000])
    at.server.body = BODY[:1000]
    at.server.faults = [at.server.serve]
    with pytest.raises(DataError, match="offers 1,000 bytes"):
        at.download()
    assert at.server.ranges == ["bytes=2000-", None]


@pytest.mark.parametrize("code", [401, 404, 410])
def test_a_final_refusal_is_not_repeated(at: Setting, code: int) -> None:
    at.server.faults = [status(code)]
    with pytest.raises(DataError, match=f"answers {code}") as caught:
        at.download()
    assert len(at.server.ranges) == 1
    assert str(at.path) in str(caught.value)


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_server_is_asked_again(at: Setting, code: int) -> None:
    at.server.faults = [status(code), status(code)]
    assert at.download().read_bytes() == BODY
    assert len(at.server.ranges) == 3


@pytest.mark.parametrize("value", ["inf", "1e9", "soon", "-5", "0.2"])
def test_an_absurd_wait_does_not_hold_a_download(at: Setting, value: str) -> None:
    at.server.faults = [status(429, value)]
    assert at.download().read_bytes() == BODY
    assert len(at.server.ranges) == 2


@pytest.mark.parametrize(("value", "said"), [("25920", "asks to wait 7 h 12 min"), ("31", "asks to wait 31 s")])
def test_a_long_wait_ends_a_download_and_is_told(at: Setting, value: str, said: str) -> None:
    at.server.faults = [status(429, value)] * 5
    with pytest.raises(DataError, match=said):
        at.download()
    assert len(at.server.ranges) == 1


def test_a_server_that_stays_busy_is_given_up_and_the_part_kept(at: Setting) -> None:
    at.folder.mkdir(parents=True)
    at.part.write_bytes(BODY[:1000])
    at.server.faults = [status(503)] * 50
    with pytest.raises(DataError, match="answers 503"):
        at.download()
    assert 2 <= len(at.server.ranges) < 10
    assert at.part.read_bytes() == BODY[:1000]


def test_without_a_network_the_error_says_how_to_get_the_file(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        entry = make_entry(f"http://127.0.0.1:{unused.getsockname()[1]}/file.json")
        with httpx.Client(trust_env=False) as client, pytest.raises(DataError) as caught:
            download(entry, tmp_path, client=client, pause=0.01)
    assert entry.source is not None
    for part in ("cannot be downloaded", str(tmp_path / "file.json"), entry.source.sha256, f"{len(BODY):,} bytes"):
        assert part in str(caught.value)


def test_a_full_disk_is_told_before_the_download(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(at.folder.parents[1])._replace(free=len(BODY) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DataError, match=rf"{len(BODY) - 1:,} bytes free"):
        at.download()
    assert at.server.ranges == []
    at.part.write_bytes(BODY[:1])
    assert at.download().read_bytes() == BODY


def test_a_folder_that_cannot_be_written(at: Setting) -> None:
    at.folder.parent.mkdir()
    at.folder.write_text("a file where the folder should be")
    with pytest.raises(DataError, match="cannot be written"):
        at.download()


def test_a_shipped_entry_needs_no_download(tmp_path: Path) -> None:
    entry = CatalogueEntry("shipped", "", "sample.json", "MIT")
    assert download(entry, tmp_path) == data_file(entry, tmp_path)
    assert list(tmp_path.iterdir()) == []
