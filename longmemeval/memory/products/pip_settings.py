"""Pass pip's configuration on to uv, which does not read it.

Standard library only: `scripts/install.py` needs it before anything is installed.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping

_UV_OPTIONS = {
    "index-url": "--index-url",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
_UV_VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}


def pip_settings() -> dict[str, str]:
    """Return pip's configuration from files and variables, values by option; empty without pip."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in found and value[:1] in "'\"":
            found[section][option.strip(".")] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of uv that correspond to pip's `settings`."""
    return {_UV_VARIABLES[key]: value for key, value in settings.items() if key in _UV_VARIABLES}


def uv_arguments(settings: Mapping[str, str]) -> list[str]:
    """Return the options of uv that correspond to pip's `settings`."""

    def options() -> Iterator[str]:
        for key, option in _UV_OPTIONS.items():
            for value in settings.get(key, "").split():
                yield from (option, value)
        if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            yield "--no-index"

    # pip takes the best version of all indices; uv by default only the first index that has the package.
    return [*options(), "--index-strategy", "unsafe-best-match"]
