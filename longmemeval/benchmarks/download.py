"""Download of catalogue files: hashed while streaming, resumed after interruptions, complete or absent."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import tenacity

from longmemeval.benchmarks.catalogue import (
    CatalogueEntry,
    Source,
    by_hand,
    data_file,
    folder_missing,
    folder_state,
    unfinished,
)
from longmemeval.benchmarks.repository import fetch, is_complete
from longmemeval.core.files import replacing, sha256_file
from longmemeval.core.http import Proxy, proxy_for, requested_wait
from longmemeval.core.text.figures import duration
from longmemeval.errors import DataError

# Files of datasets that are already in the Hugging Face cache, found by their hash.
#
# The layout is documented (huggingface.co/docs/hub/local-cache): `datasets--OWNER--NAME/blobs/` holds each file once,
# a large file under its sha256; `snapshots/REVISION/` holds links to them, or on some systems the files themselves.

_PIECE = 1 << 20


def cache_folder() -> Path:
    """Return the cache's folder, existing or not: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else in the user's cache."""
    if own := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(own).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("HF_HOME") or f"{caches}/huggingface").expanduser() / "hub"


def cached_copy(source: Source) -> Path | None:
    """Return a file of the cache, from any dataset, with the size and hash of the source; None if there is none."""
    # A file that cannot be read is skipped: the download reports what is wrong, if anything is.
    for candidate in _files_of_source_size(cache_folder(), source):
        try:
            if sha256_file(candidate) == source.sha256:
                return candidate
        except OSError:
            continue
    return None


def _files_of_source_size(cache: Path, source: Source) -> Iterator[Path]:
    seen = set()
    for pattern in (f"datasets--*/blobs/{source.sha256}", "datasets--*/blobs/*", "datasets--*/snapshots/**/*"):
        for path in sorted(cache.glob(pattern)):
            real = path.resolve()
            if real not in seen and real.is_file() and real.stat().st_size == source.bytes:
                seen.add(real)
                yield path


def copy_cached(
    cached: Path, path: Path, source: Source, on_progress: Callable[[int, int], None] | None = None
) -> None:
    """Copy a file of the cache that `cached_copy` found to `path`, completely or not at all.

    Raises:
        OSError: the file cannot be read, or `path` cannot be written.
    """
    copied = 0
    with cached.open("rb") as old, replacing(path) as new:
        while piece := old.read(_PIECE):
            new.write(piece)
            copied += len(piece)
            if on_progress:
                on_progress(copied, source.bytes)


_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0

Progress = Callable[[int, int], None]
"""Function called with the bytes received and the size of the file; for a repository, with numbers of files."""


class _Interrupted(Exception):
    """The server is busy, or the body ended early: trying again may help, after the wait that it asks for."""

    wait_s = 0.0


class _Refused(Exception):
    """The server does not give the file."""


class _Unusable(Exception):
    """The server offers another file than that of the catalogue."""


def download(
    entry: CatalogueEntry,
    data_dir: Path,
    *,
    client: httpx.Client | None = None,
    on_progress: Progress | None = None,
    on_cached: Callable[[Path], None] | None = None,
    pause: float = 0.5,
) -> Path:
    """Fetch the entry's file and its companions, or its folder, into `data_dir`, unless they are there and intact.

    A file with the catalogue's hash is copied from the Hugging Face cache, if it is there. Bytes received are stored
    in `<file>.part` until it is complete, and a later call resumes there. An existing file with other bytes is replaced
    once the new one is complete.

    Args:
        entry: entry to fetch; a shipped entry need not be fetched, a folder without a repository cannot be.
        data_dir: folder of the file; created if needed.
        client: the HTTP client to use; None: a new one that follows redirects.
        on_progress: called after every chunk.
        on_cached: called with the path of each file copied from the Hugging Face cache.
        pause: seconds before the second attempt; doubles with each further one.

    Returns:
        The path of the file.

    Raises:
        DataError: there is no network, no such file at the server or too little disk space, the bytes are not those of
            the catalogue, or a folder is missing; says how to get the file by other means.
    """
    path = data_file(entry, data_dir)
    if is_here(entry, data_dir):
        return path
    if entry.repository:
        mark = unfinished(path)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        clone = data_dir / entry.repository.folder
        fetch(entry.name, entry.repository, clone, on_progress=on_progress, pause=pause)
        mark.unlink()
        return path
    if entry.source is None:
        raise folder_missing(entry, path)
    for place, source in entry.sources(path):
        if is_intact(place, source):
            continue
        if found := cached_copy(source):
            _copy(entry.name, found, place, source, on_progress)
            if on_cached:
                on_cached(found)
        if not is_intact(place, source):
            _download(entry.name, place, source, client, on_progress, pause)
    return path


def _copy(name: str, cached: Path, path: Path, source: Source, on_progress: Progress | None) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.unlink(missing_ok=True)
        _check_space(source, part)
        copy_cached(cached, path, source, on_progress)
    except OSError as error:
        raise _not_written(name, path, source, error) from error


def _not_written(name: str, path: Path, source: Source, error: OSError) -> DataError:
    reason, fix = error.strerror or str(error), f"Try again, or {by_hand(source, path)}"
    return DataError(f"{name!r} cannot be written: {reason}", where=str(path), fix=fix)


def _download(
    name: str, path: Path, source: Source, client: httpx.Client | None, on_progress: Progress | None, pause: float
) -> None:
    remedy = f"Try again, or {by_hand(source, path)}"
    proxy = Proxy() if client else proxy_for(source.url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        _check_space(source, part)
        way = httpx.HTTPTransport(proxy=proxy.url or None)
        with (
            nullcontext(client)
            if client
            else httpx.Client(follow_redirects=True, timeout=30.0, transport=way) as session
        ):
            _patiently(lambda: _fetch(source, part, session, on_progress), pause)
        part.replace(path)
    except _Unusable as error:
        raise DataError(f"The download of {name!r} is unusable: {error}", where=source.url, fix=remedy) from error
    except (httpx.HTTPError, _Interrupted, _Refused) as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{name!r} cannot be downloaded: {reason}", where=f"{source.url}{proxy}", fix=remedy) from error
    except OSError as error:
        raise _not_written(name, path, source, error) from error


def is_here(entry: CatalogueEntry, data_dir: Path) -> bool:
    """Return whether nothing need be fetched: shipped, files intact, or folder complete (or filled by hand)."""
    path = data_file(entry, data_dir)
    if entry.repository:
        whole = is_complete(entry.repository, data_dir / entry.repository.folder)
        return whole and folder_state(path) == "yes"
    if entry.is_folder:
        return folder_state(path) == "yes"
    return all(is_intact(place, source) for place, source in entry.sources(path))


def is_intact(path: Path, source: Source) -> bool:
    """Return whether the file exists with the size and hash of the catalogue."""
    return path.is_file() and path.stat().st_size == source.bytes and sha256_file(path) == source.sha256


def _patiently(attempt: Callable[[], None], pause: float) -> None:
    """Call `attempt` until it succeeds, at most `_ATTEMPTS` times; retry only after transient failures."""
    usual = tenacity.wait_exponential(multiplier=pause, max=_LONGEST_PAUSE)
    tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((httpx.TransportError, _Interrupted)),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=lambda state: max(usual(state), getattr(state.outcome and state.outcome.exception(), "wait_s", 0.0)),
        reraise=True,
    )(attempt)


class _Part:
    """The bytes received so far: a file, its size and its running hash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        if path.exists():
            with path.open("rb") as handle:
                while piece := handle.read(_PIECE):
                    self._count(piece)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def append(self, pieces: Iterable[bytes], at_most: int, on_progress: Progress | None) -> None:
        """Append `pieces` to the file, but stop once it has more than `at_most` bytes."""
        with self.path.open("ab") as handle:
            for piece in pieces:
                handle.write(piece)
                self._count(piece)
                if on_progress:
                    on_progress(self.size, at_most)
                if self.size > at_most:
                    break

    def clear(self) -> None:
        """Delete all bytes."""
        self.path.unlink(missing_ok=True)
        self.size = 0
        self._digest = hashlib.sha256()

    def _count(self, piece: bytes) -> None:
        self.size += len(piece)
        self._digest.update(piece)


def _fetch(source: Source, path: Path, client: httpx.Client, on_progress: Progress | None) -> None:
    """Fetch the rest of the part at `path` and verify the whole; remove a part that cannot become the file."""
    part = _Part(path)
    try:
        if part.size < source.bytes:
            _fetch_rest(source, part, client, on_progress)
        if part.size > source.bytes:
            raise _Unusable(f"it has more than {source.bytes:,} bytes")
        if part.sha256 != source.sha256:
            raise _Unusable(f"its sha256 is {part.sha256}, not {source.sha256}")
    except _Unusable:
        part.clear()
        raise


def _fetch_rest(source: Source, part: _Part, client: httpx.Client, on_progress: Progress | None) -> None:
    """Stream the rest of `part`; raise `_Interrupted` if the body ends early."""
    # No compression: ranges of a compressed body would not be ranges of the file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={part.size}-"} if part.size else {})
    with client.stream("GET", source.url, headers=headers) as response:
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            _check_status(response, part)
            part.clear()
        offered = _whole_size(response)
        if offered is not None and offered != source.bytes:
            raise _Unusable(f"the server offers {offered:,} bytes, not {source.bytes:,}")
        part.append(response.iter_bytes(), source.bytes, on_progress)
    if part.size < source.bytes:
        raise _Interrupted(f"the body ended after {part.size:,} of {source.bytes:,} bytes")


def _check_status(response: httpx.Response, part: _Part) -> None:
    """Check the status: raise `_Interrupted` for a transient and `_Refused` for a final failure."""
    status = response.status_code
    if status == httpx.codes.OK:
        return
    reason = f"the server answers {status} {response.reason_phrase}".rstrip()
    if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
        part.clear()
        raise _Interrupted(reason)
    if status in (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS) or status >= 500:
        interrupted = _Interrupted(reason)
        interrupted.wait_s = requested_wait(response.headers, "") or 0.0
        if interrupted.wait_s > _LONGEST_PAUSE:
            raise _Refused(f"{reason} and asks to wait {duration(interrupted.wait_s)}")
        raise interrupted
    raise _Refused(reason)


def _whole_size(response: httpx.Response) -> int | None:
    """Return the size of the whole file that the server states; None if it does not."""
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        total = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
        return int(total[1]) if total else None
    if "Content-Encoding" in response.headers:
        return None
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _check_space(source: Source, part: Path) -> None:
    """Raise `DataError` if the disk cannot hold the rest."""
    missing = source.bytes - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(part.parent).free
    if free < missing:
        what = f"The disk has {free:,} bytes free, but the download needs {missing:,}"
        raise DataError(what, where=str(part.parent), fix="Free some space, or choose another folder with --data-dir")
