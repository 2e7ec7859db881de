"""A small proxy on the loopback, for HTTP and for SOCKS 5, behind which one server stands for every host."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from urllib.parse import urlsplit


class ProxyServer(ThreadingTCPServer):
    """Passes requests for any host on to `target`.

    Args:
        target: address of the server behind it.
        refuses: status and reason with which it answers instead, such as `407 Proxy Authentication Required`.
    """

    daemon_threads = True

    def __init__(self, target: str, refuses: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.refuses = (urlsplit(target).hostname or "", urlsplit(target).port or 0), refuses
        self.asked: list[str] = []
        """What it was asked for: hosts with their ports."""
        self.logins: list[str] = []
        """`Proxy-Authorization` of the requests."""
        self.port = int(self.server_address[1])


class _Handler(StreamRequestHandler):
    server: ProxyServer

    def handle(self) -> None:
        first = self.rfile.read(1)
        if first == b"\5":
            self._socks()
        elif first:
            self._http(first + self.rfile.readline())

    def _socks(self) -> None:
        """Answer by RFC 1928, without a login."""
        self.rfile.read(self.rfile.read(1)[0])
        self.wfile.write(b"\5\0")
        kind = self.rfile.read(4)[3]
        host = self.rfile.read(self.rfile.read(1)[0]).decode() if kind == 3 else socket.inet_ntoa(self.rfile.read(4))
        self.server.asked.append(f"{host}:{int.from_bytes(self.rfile.read(2))}")
        self.wfile.write(b"\5\0\0\1\0\0\0\0\0\0")
        self._pass_on(b"")

    def _http(self, request: bytes) -> None:
        headers = b""
        while (line := self.rfile.readline()).strip():
            if line.lower().startswith(b"proxy-authorization:"):
                self.server.logins.append(line.partition(b":")[2].decode().strip())
            elif not line.lower().startswith(b"connection:"):
                headers += line
        method, address, version = request.decode().split()
        parts = urlsplit(address if "://" in address else f"//{address}")
        self.server.asked.append(parts.netloc)
        if self.server.refuses:
            self.wfile.write(f"HTTP/1.1 {self.server.refuses}\r\nContent-Length: 0\r\n\r\n".encode())
        elif method == "CONNECT":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            self._pass_on(b"")
        else:
            # One request for each connection, so that the next one is seen too.
            first = f"{method} {parts.path} {version}\r\n".encode()
            self._pass_on(first + headers + b"Connection: close\r\n\r\n")

    def _pass_on(self, begun: bytes) -> None:
        with socket.create_connection(self.server.target) as there:
            there.sendall(begun)
            Thread(target=_copy, args=(there, self.connection), daemon=True).start()
            while piece := self.rfile.read1(65536):
                there.sendall(piece)


def _copy(there: socket.socket, back: socket.socket) -> None:
    try:
        while piece := there.recv(65536):
            back.sendall(piece)
        back.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


@contextmanager
def proxy_server(target: str, refuses: str = "") -> Iterator[ProxyServer]:
    """A running `ProxyServer`."""
    with ProxyServer(target, refuses) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
