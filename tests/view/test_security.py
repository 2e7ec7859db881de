"""Who may see the pages: the token, foreign names and origins, what a browser is told."""

import re
import socket
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from longmemeval.errors import HarnessError
from longmemeval.view import app as pages
from longmemeval.view.app import listening, make_app
from tests.report.report_runs import three_runs
from tests.view.client import TOKEN, visitor


def changed(request: Request) -> Response:
    return Response("changed")


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(pages, "PAGES", (*pages.PAGES, [Route("/change", changed, methods=["POST"])]))
    return TestClient(make_app(three_runs(tmp_path), token=TOKEN, port=8321), base_url="http://127.0.0.1:8321")


def test_without_the_token_nothing_is_shown_but_how_to_get_in(stranger: TestClient) -> None:
    for address in ("/", "/runs", "/runs?token=", "/runs?token=wrong", "/nowhere"):
        refused = stranger.get(address)
        assert refused.status_code == 403
        assert "If somebody sent you this link, ask for the address" in refused.text
        assert "If the pages are yours, open the address that `longmemeval view` printed" in refused.text
        assert "good" not in refused.text
    assert stranger.get("/data/anything").json()["error"]["what"].startswith("This address has expired")


@pytest.mark.slow
def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    answer = stranger.get(f"/runs?q=goo&token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?q=goo")
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("longmemeval-view-8321", "httponly", "samesite=lax"))
    shown = stranger.get("/runs?q=goo")
    assert shown.status_code == 200
    assert TOKEN not in shown.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "192.0.2.1:8321"])
def test_foreign_hosts_are_refused_even_with_the_cookie(stranger: TestClient, host: str) -> None:
    stranger.get(f"/runs?token={TOKEN}")
    assert stranger.get("/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8321", "127.0.0.1", "localhost:9000", "[::1]:8321"])
def test_own_hosts_are_not(stranger: TestClient, host: str) -> None:
    assert stranger.get("/runs", headers={"host": host}).status_code == 403  # Asked for the token, no more.


def test_where_everybody_may_ask_a_name_that_was_made_to_point_here_may_not(tmp_path: Path) -> None:
    open_to_all = make_app(three_runs(tmp_path), token=TOKEN, host="0.0.0.0")
    client = TestClient(open_to_all, base_url="http://192.0.2.1:8321")
    assert client.get("/runs").status_code == 403
    assert client.get("/runs", headers={"host": socket.gethostname()}).status_code == 403
    assert client.get("/runs", headers={"host": "evil.example"}).status_code == 421


def test_changes_come_from_pages_of_ours_alone(stranger: TestClient) -> None:
    stranger.get(f"/runs?token={TOKEN}")
    for origin in ("http://evil.example", "http://127.0.0.1:9", "null", "https://127.0.0.1.evil.example:8321"):
        assert stranger.post("/change", headers={"origin": origin}).status_code == 403
        assert stranger.get("/runs", headers={"origin": origin}).status_code == 403
    assert stranger.post("/change").status_code == 403
    assert stranger.post("/change", headers={"origin": "http://127.0.0.1:8321"}).text == "changed"
    assert stranger.get("/change").status_code == 405


def test_every_answer_has_the_policy(stranger: TestClient) -> None:
    answers = [stranger.get("/runs"), stranger.get("/runs", headers={"host": "evil.example"})]
    stranger.get(f"/runs?token={TOKEN}")
    answers += [stranger.get(path) for path in ("/runs", "/nowhere", "/static/view.css", "/compare?run=nobody")]
    assert [one.status_code for one in answers] == [403, 421, 200, 404, 200, 409]
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (one.headers["x-content-type-options"], one.headers["x-frame-options"]) == ("nosniff", "DENY")
        assert one.headers["referrer-policy"] == "same-origin"


@pytest.mark.slow
def test_pages_have_neither_inline_style_nor_inline_script(tmp_path: Path) -> None:
    client = visitor(three_runs(tmp_path))
    for path in ("/runs", "/compare", "/nowhere"):
        text = client.get(path).text
        assert " style=" not in text
        assert "<style" not in text
        assert re.search(r"<[^>]* on\w+=", text) is None
        assert re.search(r"<script(?![^>]* src=)", text) is None


def test_errors_are_words(stranger: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger.get(f"/runs?token={TOKEN}")
    answer = stranger.get("/compare?run=goof")
    assert answer.status_code == 409
    assert "goof" in answer.text
    assert "good" in answer.text  # The nearest name.


def test_a_used_port_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(HarnessError, match=rf"port {port}.*--port"):
            listening("127.0.0.1", port)
    with listening("127.0.0.1", None) as first, listening("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
    with pytest.raises(HarnessError, match=r"Cannot listen at 192\.0\.2\.1"):
        listening("192.0.2.1", 0)
