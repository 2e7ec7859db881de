"""Addresses of folders in stores on the network, and the local folder that stands for one.

`s3://bucket/prefix` is `remote-cache/remote+s3+bucket/prefix` wherever a path is needed: locks, caches and journals,
which cannot be in such a store, are there. Code that reads and writes fixtures checks a path with `remote_of`. The
screen and errors show the address again (`as_addresses`).
"""

import os
import re
from bisect import insort
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

SCHEMES = {"s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az"}
_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/+(.*)", re.DOTALL)
_MARK = "remote+"
_STANDS_FOR = re.compile(rf"{re.escape(_MARK)}(s3|gs|az)\+(.+)", re.DOTALL)
_LOCAL_FORM = re.compile(rf"[^\s\"'(]*{re.escape(_MARK)}(s3|gs|az)\+")
_CACHE_GB = 10.0
_given: dict[str, str] = {}
"""Map of absolute paths to the paths from which they were made."""
_shortened: list[tuple[str, str]] = []
"""Pairs of `_given` that differ, the longest first."""


class PlaceError(ValueError):
    """Error for an unusable address: what is wrong, and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class Patience(NamedTuple):
    """How long to wait for a store that fails."""

    give_up_after_s: float | None = None
    """Seconds of failures without a success after which no more requests are sent; None: the default."""
    is_there: bool = False
    """True if it has answered the process that sent a task here. A store that never answered is not waited for."""


PATIENT = Patience()


class RemoteFolder(NamedTuple):
    """A folder in a store."""

    scheme: str
    bucket: str
    key: str
    """Path in the bucket, without a slash at either end."""
    here: Path
    """Local folder that stands for the bucket."""
    patience: Patience = PATIENT

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def child(self, name: str) -> "RemoteFolder":
        """Return the sub-folder `name`."""
        return self._replace(key=f"{self.key}/{name}" if self.key else name)


def cache_folder() -> Path:
    """Return the folder for local copies of stores."""
    return Path(os.environ.get("LONGMEMEVAL_REMOTE_CACHE_DIR") or "remote-cache")


def cache_bytes() -> int:
    """Return the number of bytes of copies to keep.

    Raises:
        PlaceError: the environment variable is not a number above 0.
    """
    setting = os.environ.get("LONGMEMEVAL_REMOTE_CACHE_GB", "")
    try:
        gigabytes = float(setting or _CACHE_GB)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise PlaceError(
            f"LONGMEMEVAL_REMOTE_CACHE_GB is not a number above 0: '{setting}'", "Set it to a number, such as 10"
        )
    return int(gigabytes * 1e9)


def local_place(path_or_address: str | Path) -> Path:
    """Return the local folder for a path, or the one that stands for an address.

    Args:
        path_or_address: `Path("s3://b/p")` is understood as an address too, although it has lost a slash.

    Raises:
        PlaceError: an address of another scheme, or one that is not a bucket and a path.
    """
    address = _ADDRESS.fullmatch(str(path_or_address))
    if not address:
        return Path(path_or_address)
    scheme, rest = address.groups()
    if scheme == "file":
        return Path("/" + unquote(rest))
    if scheme not in SCHEMES:
        raise PlaceError(
            f"Unknown store '{scheme}://'",
            "Give a folder, or s3://bucket/prefix, gs://bucket/prefix or az://container/prefix",
        )
    bucket, *prefix = rest.strip("/").split("/")
    if not bucket or {"", ".", ".."} & set(prefix) or set(rest) & set("@?#%\\"):
        raise PlaceError(
            f"The address that begins {scheme}:// is not a bucket and a path in it",
            f"Write {scheme}://bucket/prefix; keys go into the environment or the files of the store's own tools",
        )
    return cache_folder() / f"{_MARK}{SCHEMES[scheme]}+{bucket}" / Path(*prefix)


def remote_of(path: Path, patience: Patience = PATIENT) -> RemoteFolder | None:
    """Return the folder in a store that a local path stands for; None if it is only local.

    Args:
        patience: how long to wait for the store.
    """
    if _MARK not in str(path):
        return None
    for number, part in enumerate(path.parts):
        if found := _STANDS_FOR.fullmatch(part):
            rest = "/".join(path.parts[number + 1 :])
            return RemoteFolder(found[1], found[2], rest, Path(*path.parts[: number + 1]), patience)
    return None


def anchored(path: Path) -> Path:
    """Return `path` as an absolute path, which stays valid when the code of a memory changes the working folder.

    The screen, errors and records show it as it was given (`as_given`).
    """
    try:
        absolute = Path.cwd() / path
    except OSError:  # The working folder was removed, and nothing in it can be found again.
        return path
    whole, original = str(absolute), str(path)
    if whole not in _given:
        _given[whole] = original
        if whole != original:
            insort(_shortened, (whole, original), key=lambda paths: -len(paths[0]))
    return absolute


def as_given(text: str) -> str:
    """Return `text` with paths as they were given, in place of the absolute paths that `anchored` made of them."""
    for absolute, original in _shortened:
        if absolute in text:
            replacement = original.replace("\\", r"\\")
            text = re.sub(rf"(?<![\w./-]){re.escape(absolute)}(?![\w-])", replacement, text)
    return text


def as_addresses(text: str) -> str:
    """Return `text` with addresses in place of the local folders that stand for them, and paths as they were given."""
    text = as_given(text)
    return _LOCAL_FORM.sub(r"\1://", text) if _MARK in text else text
