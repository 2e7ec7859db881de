"""The system's Firefox by Marionette, the protocol that its WebDriver speaks: nothing but a socket is needed."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

_PORT_FILE = "MarionetteActivePort"
_WITHIN_S = 120.0


class Refused(Exception):
    """A command could not be done."""


class Firefox:
    """One window.

    Args:
        connection: to its Marionette.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self._asked = 0
        self._read()  # It says first who it is.
        self._ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"pageLoadStrategy": "normal"}})

    def open(self, address: str) -> None:
        """Open an address, and wait until the page is loaded."""
        self._ask("WebDriver:Navigate", url=address)

    def run(self, script: str) -> object:
        """Return what a script returns; a promise is waited for."""
        return self._ask("WebDriver:ExecuteScript", script=script, args=[], sandbox=None).get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that is selected."""
        return str(self.run(f"return document.querySelector({json.dumps(selector)}).textContent"))

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true, of this page or of one that follows it."""
        end = time.monotonic() + _WITHIN_S
        while time.monotonic() < end:
            with suppress(Refused):  # The page is being left.
                if self.run(f"return Boolean({condition})"):
                    return
            time.sleep(0.05)
        raise AssertionError(f"never true: {condition}")

    def press(self, letter: str) -> None:
        """Press a key."""
        keys = [{"type": kind, "value": letter} for kind in ("keyDown", "keyUp")]
        self._ask("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": keys}])

    def _ask(self, command: str, **arguments: object) -> dict[str, object]:
        self._asked += 1
        message = json.dumps([0, self._asked, command, arguments]).encode()
        self._file.write(f"{len(message)}:".encode() + message)
        self._file.flush()
        _, _, error, result = msgspec.convert(self._read(), tuple[int, int, object, dict[str, object] | None])
        if error is not None:
            raise Refused(error)
        return result or {}

    def _read(self) -> object:
        length = b""
        while (digit := self._file.read(1)) != b":":
            assert digit, "Firefox has gone"
            length += digit
        return msgspec.json.decode(self._file.read(int(length)))


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """Start it without a window; demanded where REQUIRE_FIREFOX=1, else the test is reported as not run without it.

    Args:
        profile: a new folder.
    """
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        message = "not run: no Firefox (apt-get install firefox-esr)"
        if os.environ.get("REQUIRE_FIREFOX") == "1":
            pytest.fail(message)
        pytest.skip(message)
    profile.mkdir()
    settings = {
        "marionette.port": 0,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
    }
    lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in settings.items()]
    (profile / "user.js").write_text("\n".join(lines))
    line = [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    environment = os.environ | {"HOME": str(profile), "MOZ_CRASHREPORTER_DISABLE": "1"}
    started = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(profile / _PORT_FILE, started)
        with socket.create_connection(("127.0.0.1", port), timeout=_WITHIN_S) as connection:
            yield Firefox(connection)
    finally:
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(20)
        started.kill()
        started.wait()


def _port(file: Path, started: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + _WITHIN_S
    while time.monotonic() < end and started.poll() is None:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("Firefox did not start")
