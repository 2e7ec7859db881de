"""Proxies: which calls pass one, which never do, and what is said where one stands in the way."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from longmemeval.benchmarks.catalogue import CatalogueEntry, Source
from longmemeval.benchmarks.download import download
from longmemeval.core import http
from longmemeval.core.http import proxy_for, without_proxy_here
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.providers import without_keys
from longmemeval.llm.registry import load_chat_model
from longmemeval.memory.external.transports.service import HttpService
from tests.proxies import proxy_server
from tests.server import ModelServer

VARIABLES = [name.upper() if upper else name for name in ("http_proxy", "all_proxy") for upper in (True, False)]
FILE = b"[]"


class Server(ModelServer):
    """Also a memory service, and a server of one file."""

    def more_routes(self) -> list[Route]:
        async def file(request: Request) -> Response:
            return Response(FILE)

        async def hello(request: Request) -> Response:
            return Response(b"{}")

        return [Route("/file.json", file), Route("/v1/hello", hello, methods=["POST"])]


def chat(origin: str) -> None:
    options = ModelOptions(f"{origin}/v1", max_attempts=2, max_wait_s=0.01, give_up_after_s=1)
    request = ChatRequest((ChatMessage("user", "Which colour?"),), max_tokens=9)
    assert asyncio.run(load_chat_model("openai/gpt-4o", options).complete(request)).text == "A fixed reply."


def chat_by_litellm(origin: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_VERIFY", "True")  # LiteLLM's own variable: such calls are left to it.
        chat(origin)


def embed(origin: str) -> None:
    embedder = load_embedder("openai:small", ModelOptions(f"{origin}/v1", give_up_after_s=0.1))
    assert embedder.embed(["a"]).shape == (1, 8)


def fetch(origin: str) -> None:
    source = Source(f"{origin}/file.json", "", len(FILE), hashlib.sha256(FILE).hexdigest())
    entry = CatalogueEntry("small", "A test entry", "small.json", "MIT", source)
    assert download(entry, Path("data"), pause=0.001).read_bytes() == FILE


def call_service(origin: str) -> None:
    async def call() -> bytes:
        service = HttpService(origin)
        try:
            return await service.call("hello", b"{}")
        finally:
            await service.end()

    assert asyncio.run(call()) == b"{}"


CLIENTS = [chat, chat_by_litellm, embed, fetch, call_service]
Client = Callable[[str], None]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    for kind in ("http", "https", "all", "no"):
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            monkeypatch.setenv(name, "")  # Restored at the end, whatever a library's loader sets.
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with Server() as running:
        yield running


def origin_of(server: ModelServer) -> str:
    return server.url.removesuffix("/v1")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("variable", VARIABLES)
def test_the_proxy_of_the_environment_is_asked(
    client: Client, variable: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_server(server.url) as proxy:
        monkeypatch.setenv(
            variable, f"127.0.0.1:{proxy.port}" if variable.islower() else f"http://127.0.0.1:{proxy.port}"
        )
        client("http://models.example")
        assert {asked.removesuffix(":80") for asked in proxy.asked} == {"models.example"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "0.0.0.0"])
@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9"])
def test_this_machine_is_called_directly(
    client: Client, name: str, proxy: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, proxy)
    client(origin_of(server).replace("127.0.0.1", name))


@pytest.mark.parametrize(
    "address", ["http://[::1]:8000", "https://127.1.2.3/v1", "http://host.docker.internal:1", "http://a.localhost"]
)
def test_no_proxy_is_asked_for_names_of_this_machine(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:1")
    assert not proxy_for(address).url
    assert proxy_for("http://localhost.example").url


@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize("exempt", ["models.example", ".example", "*", "other, models.example:80"])
def test_servers_exempt_from_the_proxy_are_called_directly(
    variable: str, exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:1")
    monkeypatch.setenv(variable, exempt)
    assert str(proxy_for("http://models.example:80/v1")) == ""
    assert (str(proxy_for("http://else.test/v1")) == "") == (exempt == "*")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dead_proxy_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://127.0.0.1:9"  # A port that no other test's server is given.
    monkeypatch.setenv("HTTP_PROXY", address.replace("//", "//me:password-of-mine@"))
    with pytest.raises(HarnessError) as raised:
        client("http://models.example")
    message = str(raised.value)
    assert f"through the proxy {address} (HTTP_PROXY)" in message
    assert "password-of-mine" not in message
    assert not re.search(r"ssl:|object at", message)


@pytest.mark.parametrize("client", [chat, chat_by_litellm, embed])
@pytest.mark.parametrize(
    ("refuses", "fix"), [("407 Proxy Authentication Required", "USER:PASSWORD"), ("403 Forbidden", "NO_PROXY")]
)
def test_a_proxy_that_refuses_is_asked_once(
    client: Client, refuses: str, fix: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_server(server.url, refuses) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(FatalModelError) as raised:
            client("https://models.example")
        assert proxy.asked == ["models.example:443"]
    assert "The proxy refused the connection: 4" in raised.value.what
    assert "(HTTPS_PROXY)" in raised.value.where
    assert fix in raised.value.fix


def test_user_and_password_reach_the_proxy(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy_server(server.url) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss-word@127.0.0.1:{proxy.port}")
        for client in CLIENTS:
            client("http://models.example")
        assert set(proxy.logins) == {"Basic bWU6cEBzcy13b3Jk"}
        assert len(proxy.logins) == len(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
def test_socks_works_with_its_package(
    client: Client, scheme: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("socksio", reason="socksio is not installed: pip install 'longmemeval[socks]'")
    with proxy_server(server.url) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{proxy.port}")
        client("http://models.example")
        assert set(proxy.asked) == {"models.example:80"}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_package_for_socks_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "missing", lambda libraries: libraries[0])
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    with pytest.raises(HarnessError) as raised:
        client("http://models.example")
    assert raised.value.where == "ALL_PROXY"
    assert re.search(r"Run: env -u ALL_PROXY .*install .*\[socks\]", raised.value.fix)


@pytest.mark.parametrize("value", ["ftp://proxy.example:1", "http://proxy.example:port", "http://", "socks4://a:1"])
def test_what_is_no_proxy_is_refused_by_its_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(HarnessError, match=r"cannot be used \(https_proxy\)\. Write it as http://HOST:PORT"):
        load_chat_model("openai/gpt-4o")


def test_programs_that_call_us_call_this_machine_directly() -> None:
    exempt = "localhost,127.0.0.1,::1,0.0.0.0,host.docker.internal"
    child = without_keys({"HTTP_PROXY": "http://proxy.example:1", "NO_PROXY": "corp.example"})
    assert child["NO_PROXY"] == child["no_proxy"] == f"corp.example,{exempt}"
    assert without_proxy_here(child)["NO_PROXY"] == child["NO_PROXY"]
    assert without_proxy_here({}) == without_proxy_here({"HTTP_PROXY": "http://p:1", "no_proxy": "*"}) == {}
