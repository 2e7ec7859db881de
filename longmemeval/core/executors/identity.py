"""The versions that a process brings to a task: with other code or libraries, the same task may give other bytes."""

import platform
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from longmemeval import __version__
from longmemeval.core.files import sha256_file, sha256_text

_LIBRARIES = ("numpy", "hnswlib", "msgspec", "tiktoken", "fastembed", "onnxruntime")
"""Libraries that compute, count or write the content of parts."""
_NOT_SOURCE = frozenset({".pyc", ".css", ".js", ".j2", ".typed"})
_SHOWN = 12
"""Number of characters of a hash to show."""
_BEGAN = time.time()


def identity() -> dict[str, str]:
    """Return the versions of this process by name: the package, its source (a sha256), Python and the libraries."""
    package = Path(__file__).parents[2]
    files = [path for path in package.rglob("*") if path.suffix not in _NOT_SOURCE and path.is_file()]
    lines = sorted(f"{path.relative_to(package).as_posix()}:{sha256_file(path)}\n" for path in files)
    # In that case the loaded code differs from the hashed files.
    later = ", changed since the process began" if any(path.stat().st_mtime > _BEGAN for path in files) else ""
    versions = {"longmemeval": __version__, "its source": sha256_text("".join(lines)) + later}
    versions["Python"] = ".".join(platform.python_version_tuple()[:2])
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue  # The code that needs the library reports that it is missing.
    return versions


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Describe how a worker differs from the command, `numpy 2.0.1 (here 2.1.0), …`; empty if it does not.

    Args:
        theirs: identity of the worker; empty for an earlier version that sends none.
        ours: identity of the command. A library that only one side has is ignored.
    """
    if not theirs:
        return "longmemeval of an earlier version, which does not say which"
    names = [name for name in ours if name in theirs and theirs[name] != ours[name]]
    return ", ".join(f"{name} {_short(theirs[name])} (here {_short(ours[name])})" for name in names)


def _short(version: str) -> str:
    digest, comma, remark = version.partition(",")
    return f"{digest[:_SHOWN]}…{comma}{remark}" if len(digest) > _SHOWN * 2 else version
