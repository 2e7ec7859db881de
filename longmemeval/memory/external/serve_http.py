"""Serves a class over HTTP on the loopback: `POST /v1/<method>`, parameters and result as JSON bodies.

python -m longmemeval.memory.external.serve_http mymem:MyMemory --port 8080
"""

import argparse
import asyncio
import json
import os
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from longmemeval.memory.external.serve import MemoryServer, answer, run, server_of


def http_server(server: MemoryServer, port: int, loop: asyncio.AbstractEventLoop) -> ThreadingHTTPServer:
    """A server whose calls are answered in `loop`; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            prefix, _, method = self.path.rpartition("/")
            work = answer(server, method if prefix.endswith("/v1") else "", json.loads(body or b"{}"))
            document = asyncio.run_coroutine_threadsafe(work, loop).result()
            data = json.dumps(document.get("result", document)).encode()
            with suppress(ConnectionError):
                self.send_response(500 if "error" in document else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

    ThreadingHTTPServer.daemon_threads = True
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


async def serve(server: MemoryServer, port: int) -> None:
    """Answer requests until the process is ended."""
    listener = http_server(server, port, asyncio.get_running_loop())
    sys.stdout.write(f"listening on http://127.0.0.1:{listener.server_address[1]}\n")
    sys.stdout.flush()
    # A thread that nothing waits for: what ends the loop ends the process.
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serve a memory class to longmemeval over HTTP.")
    parser.add_argument("memory", help="package.module:Class")
    parser.add_argument("--port", type=int, default=0, help="0: any free port, which is printed")
    given = parser.parse_args()
    try:
        run(serve(server_of(given.memory), given.port))
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
