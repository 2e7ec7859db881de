"""Stores on the network behind a proxy."""

import os
from pathlib import Path

import pytest

from longmemeval.core.remote.store import Store
from longmemeval.errors import HarnessError
from tests.proxies import proxy_server
from tests.s3_server import s3_bucket


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("http", "https", "all", "no"):
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            monkeypatch.setenv(name, "")  # Restored at the end, whatever the store sets.
            monkeypatch.delenv(name)


def test_a_store_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = s3_bucket(monkeypatch, tmp_path)
    with proxy_server(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert Store("s3", server.bucket, 150).create("direct", b"1")
        assert proxy.asked == []
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://s3.us-east-1.amazonaws.com")
        assert Store("s3", server.bucket, 150).read("direct") == b"1"
        assert {asked.removesuffix(":80") for asked in proxy.asked} == {"s3.us-east-1.amazonaws.com"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("http://127.0.0.1:9", r"cannot be reached .*through the proxy http://127.0.0.1:9 \(HTTP_PROXY\)"),
        ("socks5://127.0.0.1:9", r"the client of http://store.example does not \(HTTP_PROXY\)"),
    ],
)
def test_the_proxy_before_a_store_is_named(
    value: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = s3_bucket(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.example")
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(HarnessError, match=message):
        Store("s3", server.bucket, 150).read("any")
