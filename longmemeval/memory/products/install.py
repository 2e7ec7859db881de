"""Install a product into its own virtual environment, with uv if it is there, else with pip.

Both use the indices that pip is configured with: uv does not read pip's configuration, so it is passed on.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from longmemeval.errors import HarnessError
from longmemeval.memory.products.installed import Installed, Place
from longmemeval.memory.products.pip_settings import pip_settings, uv_arguments, uv_variables

_MAX_LINES = 5
_LISTED = (
    "import importlib.metadata as m, json, platform;"
    "print(json.dumps([platform.python_version(), {d.metadata['Name']: d.version for d in m.distributions()}]))"
)


class InstallError(HarnessError):
    """A product could not be installed; finished steps are kept."""

    exit_code = 1


def install(place: Place, python: str = "") -> Installed:
    """Install the product of `place`, completing an interrupted attempt.

    Args:
        place: the environment to install into.
        python: the interpreter to create the environment with; empty: the running one.

    Raises:
        InstallError: the environment cannot be created, or a package cannot be installed.
    """
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.folder.parent / f".{place.adapter.name}.lock"):
        if (there := place.installed) and not python:
            return there  # Another process installed it while this one waited for the lock.
        place.forget()
        _make_environment(place, python)
        requirements = place.adapter.description.requirements
        uv = _uv()
        if uv:
            settings = pip_settings()
            command = [uv, "pip", "install", "--python", str(place.python), *uv_arguments(settings), *requirements]
            _run(place, command, uv_variables(settings) | os.environ)
        else:
            _run(place, [str(place.python), "-m", "pip", "install", "--disable-pip-version-check", *requirements])
        version, packages = json.loads(_run(place, [str(place.python), "-I", "-c", _LISTED]))
        installed = Installed(requirements, version, dict(sorted(packages.items())))
        place.record(installed)
    return installed


def _make_environment(place: Place, python: str) -> None:
    """Create the environment; keep one whose interpreter works, unless another interpreter is wanted."""
    wanted = shutil.which(python) if python else _this_python()
    if wanted is None:
        raise HarnessError(
            f"Python interpreter '{python}' was not found", fix="Name one that can be run, such as python3.12"
        )
    here = str(place.python)
    if _works(here) and (not python or _version(wanted) == _version(here)):
        return
    without_pip = ["--without-pip"] if _uv() else []
    _run(place, [wanted, "-m", "venv", "--clear", *without_pip, str(place.folder)])


def _this_python() -> str:
    """Return the running interpreter, outside of its virtual environment."""
    return getattr(sys, "_base_executable", "") or sys.executable


def _works(python: str) -> bool:
    """Tell whether packages can be installed for an interpreter."""
    return bool(_version(python)) and (bool(_uv()) or bool(_printed(python, "import pip; print(pip.__version__)")))


def _version(python: str) -> str:
    """Return the version of an interpreter; empty if it does not work."""
    return _printed(python, "import sys; print(sys.version)")


def _printed(python: str, code: str) -> str:
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, errors="replace")
    except OSError:
        return ""
    return "" if done.returncode else done.stdout


def _uv() -> str | None:
    """Return the path of uv, beside the running interpreter or on the path."""
    return shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")


def _run(place: Place, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints.

    Raises:
        InstallError: the command fails; the error shows the last lines it printed.
    """
    name = place.adapter.name
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise InstallError(f"'{command[0]}' cannot be run: {error.strerror}", where=str(place.folder)) from error
    if done.returncode:
        lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        last = " / ".join(lines[-_MAX_LINES:]) or f"exit code {done.returncode}"
        raise InstallError(
            f"'{name}' could not be installed. {_program(command)} said last: {last.rstrip('.')}",
            where=str(place.folder),
            fix=f"Fix this and rerun `longmemeval memory install {name}`; finished steps are kept",
        )
    return done.stdout


def _program(command: Sequence[str]) -> str:
    return "pip" if "pip" in command and "-m" in command else Path(command[0]).name
