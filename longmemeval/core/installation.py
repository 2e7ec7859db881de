"""How this copy of longmemeval was installed, for messages that say how to add an extra."""

import shlex
import shutil
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

VIEW = ("jinja2", "starlette", "uvicorn")
"""What the extra `view` installs."""
REPORT = ("jinja2", "matplotlib")
"""What the extra `report` installs."""


def missing(libraries: Iterable[str]) -> str:
    """Return the first of some libraries that is not installed; empty if all are."""
    return next((name for name in libraries if find_spec(name) is None), "")


@cache
def install_command(extra: str) -> str:
    """Return the command line that adds an extra to this copy: from the source tree that it runs from, if it does."""
    source = Path(__file__).parents[2]
    from_source = (source / "pyproject.toml").is_file()
    # Of an installed wheel, pip takes the extra's packages and leaves the copy as it is.
    what = f"-e {shlex.quote(f'{source}[{extra}]')}" if from_source else f"'longmemeval[{extra}]'"
    return f"{_installer()} {what}"


def _installer() -> str:
    """Return the command that installs packages for this interpreter."""
    pip = shutil.which("pip")
    if pip and Path(pip).parent == Path(sys.executable).parent:
        return "pip install"
    if find_spec("pip"):
        return f"{shlex.quote(sys.executable)} -m pip install"
    return f"uv pip install --python {shlex.quote(sys.executable)}"
