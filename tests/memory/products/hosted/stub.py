"""A stand-in for a hosted service: routes with the shape of what is sent, a state, and work done as it is polled.

Nothing depends on time: what was added is done after it was asked about a few times.
"""

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

Body = dict[str, Any]
Reply = tuple[int, Any]


class Request(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: Body
    headers: Mapping[str, str]


class Route(NamedTuple):
    """One call of the published API: what is sent must have `required`, and nothing but these and `optional`."""

    method: str
    path: str
    """A pattern; its groups are the arguments of `answer`."""
    answer: Callable[..., Reply]
    required: Collection[str] = ()
    optional: Collection[str] = ()


class HostedStub(ABC):
    """A service on the loopback; subclasses have its routes and its state.

    Args:
        authorization: the header that every request must have.
    """

    polls = 3
    """How often work is asked about until it is done."""

    def __init__(self, authorization: str) -> None:
        self.authorization = authorization
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self.fails_on = "\0"
        """Work on texts with these words fails."""
        self.polled = 0
        self._left: dict[str, int] = {}
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

            def _answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, document = stub._handled(self.command, self.path, data, dict(self.headers))
                reply = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "HostedStub":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @abstractmethod
    def routes(self) -> list[Route]:
        """All that the service answers."""

    @abstractmethod
    def kept(self) -> list[str]:
        """The names of all histories that are at the service now."""

    def begin(self, name: str) -> None:
        """Work of that name begins."""
        self._left[name] = self.polls

    def done(self, name: str) -> bool:
        """Whether it is done, now that somebody asks."""
        self.polled += 1
        self._left[name] = max(0, self._left.get(name, 0) - 1)
        return self._left[name] == 0

    def is_done(self, name: str) -> bool:
        """Whether it is done; nobody asks."""
        return self._left.get(name, 0) == 0

    def _handled(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        url = urlsplit(path)
        body = json.loads(data) if data else {}
        request = Request(method, unquote(url.path), dict(parse_qsl(url.query)), body or {}, headers)
        with self._lock:
            self.requests.append(request)
            if request.headers.get("Authorization") != self.authorization:
                return self._refused(request, 401, "no key")
            for route in self.routes():
                found = re.fullmatch(route.path, request.path)
                if found and route.method == method:
                    return self._checked(route, request, found.groups())
            return self._refused(request, 404, "no such call")

    def _checked(self, route: Route, request: Request, names: tuple[str, ...]) -> Reply:
        if missing := set(route.required) - request.body.keys():
            return self._refused(request, 400, f"without {missing}")
        if unknown := request.body.keys() - set(route.required) - set(route.optional):
            return self._refused(request, 400, f"with {unknown}")
        return route.answer(request, *names)

    def _refused(self, request: Request, status: int, why: str) -> Reply:
        self.problems.append(f"{request.method} {request.path}: {why}: {str(request.body)[:300]}")
        return status, {"error": {"message": why}, "detail": why, "message": why}


def closeness(query: str, text: str) -> float:
    """The share of the question's words in a text."""
    words, found = (set(re.findall(r"\w+", one.lower())) for one in (query, text))
    return len(words & found) / (len(words) or 1)


def best(query: str, texts: Mapping[str, str], limit: int) -> list[tuple[str, float]]:
    """The keys of the texts that share most words with a question, with their closeness; the first come first."""
    scores = {key: closeness(query, text) for key, text in texts.items()}
    ordered = sorted((key for key in scores if scores[key]), key=lambda key: -scores[key])
    return [(key, scores[key]) for key in ordered[:limit]]
