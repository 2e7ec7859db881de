"""A server of S3's kind on the loopback: moto's, with what Amazon's has and it has not (conditional writes)."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'longmemeval[s3]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'longmemeval[dev]'")

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeBucket, s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_ACCOUNT = "123456789012"
_DENIED = "<Error><Code>{code}</Code><Message>{code}</Message><Condition>{condition}</Condition></Error>"


class _Quiet(WSGIRequestHandler):
    def log(self, *told: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    query: str

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "list-type=2" in self.query


class S3Server:
    """A server; each test has a bucket of its own in it.

    Attributes:
        asked: the requests of this test so far.
        denied: whether it refuses everything.
        busy: whether it answers everything with 503.
        before: called with each before it is answered; it may wait.
    """

    def __init__(self) -> None:
        self._app: WSGIApplication = DomainDispatcherApplication(create_backend_app)
        self._writing = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        url = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "access-of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests-0123456789",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self.begin()

    def begin(self) -> None:
        """A new bucket, which is empty, and nothing asked yet."""
        self.asked: list[Asked] = []
        self.before: Callable[[Asked], None] = lambda asked: None
        self.denied = self.busy = False
        self.bucket = f"bucket-{uuid4().hex[:12]}"
        self.address = f"s3://{self.bucket}/fixtures"
        s3_backends[_ACCOUNT]["aws"].create_bucket(self.bucket, "us-east-1")

    def stop(self) -> None:
        """Refuse connections from now on; only for a server that no other test uses."""
        self._server.shutdown()
        self._server.server_close()

    def objects(self) -> dict[str, bytes]:
        """All objects, by their paths in the bucket."""
        return {key: stored.value for key, stored in _bucket(self.bucket).keys.items()}

    def remove(self, key: str) -> None:
        """Remove an object, without a request."""
        _bucket(self.bucket).keys.pop(key)

    def put(self, key: str, data: bytes) -> None:
        """Put an object there, without a request."""
        s3_backends[_ACCOUNT]["aws"].put_object(self.bucket, key, data)

    def _answer(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        request = Request(environ, populate_request=False)
        asked = Asked(request.method, request.path, request.query_string.decode())
        self.asked.append(asked)
        self.before(asked)
        if self.denied:
            return Response(_DENIED.format(code="AccessDenied", condition=""), 403)(environ, start)
        if self.busy:
            return Response(_DENIED.format(code="SlowDown", condition=""), 503)(environ, start)
        if request.method != "PUT" or not {"If-Match", "If-None-Match"} & {name for name, _ in request.headers}:
            return self._app(environ, start)
        with self._writing:
            refused = self._refused(request)
            if refused:
                return Response(_DENIED.format(code=refused[0], condition=refused[1]), refused[2])(environ, start)
            # Moto's own look at these headers is not Amazon's.
            for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
                environ.pop(name, None)
            return list(self._app(environ, start))

    def _refused(self, request: Request) -> tuple[str, str, int] | None:
        bucket, _, key = request.path.lstrip("/").partition("/")
        found = _version(bucket, key)
        if request.headers.get("If-None-Match") == "*":
            return ("PreconditionFailed", "If-None-Match", 412) if found else None
        if not found:
            return "NoSuchKey", "", 404
        wanted = request.headers["If-Match"].strip('"')
        return ("PreconditionFailed", "If-Match", 412) if found != wanted else None


def _bucket(name: str) -> FakeBucket:
    return s3_backends[_ACCOUNT]["aws"].buckets[name]


def _version(bucket: str, key: str) -> str | None:
    """The ETag of an object, without a request."""
    found = _bucket(bucket).keys.get(key)
    return str(found.etag).strip('"') if found else None


@cache
def _server() -> S3Server:
    return S3Server()


def s3_bucket(monkeypatch: pytest.MonkeyPatch, folder: Path) -> S3Server:
    """The server of this test session with an empty bucket; this process speaks to it, and works in `folder`."""
    server = _server()
    server.begin()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    return server
