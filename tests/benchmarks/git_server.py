"""A git repository over HTTP on the loopback, as a hosting service gives it, with faults on demand."""

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class GitServer:
    """Serves the repositories under a folder by git's own `http-backend`; `refuse` makes further packs fail.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.packs = 0
        """Packs that were asked for."""
        self.refuse_after: int | None = None
        """Packs after which the server answers 503; None: it never does."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.serve(self, root, b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                # The other request of protocol 2 lists references.
                if b"command=fetch" in body:
                    outer.packs += 1
                if outer.refuse_after is not None and outer.packs > outer.refuse_after:
                    self.send_error(503)
                    return
                outer.serve(self, root, body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, handler: BaseHTTPRequestHandler, root: Path, body: bytes) -> None:
        """Answer as `git http-backend` does (CGI), what it refuses too."""
        address = urlsplit(handler.path)
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=False,
            env=os.environ
            | {
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
                "PATH_INFO": address.path,
                "QUERY_STRING": address.query,
                "REQUEST_METHOD": handler.command,
                "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
                "REMOTE_ADDR": "127.0.0.1",
            },
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        handler.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def published(root: Path, name: str) -> str:
    """Make the folder `root/name` a repository that may be fetched in parts; the id of its one commit."""

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(root / name), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Data")
    return git("rev-parse", "HEAD")
