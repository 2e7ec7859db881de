"""A bucket: list, read and conditionally write objects, through universal-pathlib and fsspec.

Of two concurrent writers, one wins. A request that fails in a transient way (5xx, a timeout, a lost connection) is
repeated until one is answered, or there have been nothing but failures for `give_up_after_s`.
"""

import io
import math
import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from longmemeval.core.defaults import GIVE_UP_AFTER_S
from longmemeval.core.http import Proxy, proxy_for, without_proxy_here
from longmemeval.core.installation import install_command
from longmemeval.core.remote.places import RemoteFolder, cache_bytes
from longmemeval.errors import FixtureError, HarnessError, StoreDownError, chain, needed

# Meanings of the errors of a store's client, by name, by code and by HTTP status.

NO_LOGIN = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}
REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403"}
UNREACHED = {
    "EndpointConnectionError",
    "ProxyConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ClientConnectorError",
    "ConnectionClosedError",
    "ServiceRequestError",
    "ServiceResponseError",
    "FSTimeoutError",
    "HTTPClientError",
    "ClientPayloadError",
    "IncompleteRead",
    "IncompleteReadError",
    "ResponseParserError",
    "ServerDisconnectedError",
}
BUSY = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "ThrottlingException", "ServerBusy"}
PASSING_STATUSES = {408, 429}


def code_of(error: BaseException) -> str:
    """Return the code that an S3-like store gives an error; empty if it has none."""
    for link in chain(error):
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error reply; 0 if there was none."""
    for link in chain(error):
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        for name in ("status_code", "status", "code"):
            if isinstance(found := getattr(link, name, None), int):
                return found
    return 0


_EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
_LOGINS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; `aws sts get-caller-identity` shows "
    "whose they are",
    "gs": "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "az": "Set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_AMAZONS = "https://s3.amazonaws.com"
_ENDPOINTS = {"s3": " (and AWS_ENDPOINT_URL, if the store is not Amazon's)"}
_AT_ONCE = 256
_TURNED_DOWN = {"PreconditionFailed", "412"}
_OVERLAPPED = {"ConditionalRequestConflict", "OperationAborted"}
_TRIES = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
"""Seconds between two attempts of a request."""
_SILENT_S = 15.0
"""Seconds without a byte (or a share of the time until giving up, if less) after which a request counts as failed."""
_DOWN_S = 10.0
"""Seconds for which a store that was given up is also given up for the tasks that follow."""
_SLOWEST = 100_000.0
"""Minimum number of bytes per second that a store accepts."""
_PARTS = 10
"""Divisor of the time until giving up: the longest silence of a request, and the longest pause."""

T = TypeVar("T")


class _PassingError(FixtureError):
    """A request failed in a way that may be transient.

    Args:
        answered: True if the failure is the store's own reply.
    """

    def __init__(self, what: str, *, where: str, fix: str, answered: bool) -> None:
        super().__init__(what, where=where, fix=fix)
        self.answered = answered


class StoredObject(NamedTuple):
    """An entry for an object in a listing."""

    version: str
    size: int


class Store:
    """One bucket.

    Args:
        scheme: scheme of its address.
        bucket: name of the bucket.
        give_up_after_s: seconds of failures without a success after which no more requests are sent.

    Raises:
        HarnessError: the package for the store is not installed.
    """

    def __init__(self, scheme: str, bucket: str, give_up_after_s: float) -> None:
        self._scheme = scheme
        self._bucket = bucket
        self._address = f"{scheme}://{bucket}"
        self._takes_conditions = True
        self._is_there = False
        self._lock = Lock()
        self._down: StoreDownError | None = None
        self._down_until = -math.inf
        self._answered_at: float | None = None
        self._failing_since: float | None = None
        self._attempts = 0
        self._give_up_after_s = give_up_after_s
        self._silent_s = min(_SILENT_S, give_up_after_s / _PARTS)
        with self._translated_errors():
            what = f"Addresses that begin {scheme}:// need packages that are not installed"
            fix = f"Run: {install_command(_EXTRAS[scheme])}"
            # Google's and Azure's clients find their proxies themselves.
            self._proxy = proxy_for(_endpoint() or _AMAZONS, socks=False) if scheme == "s3" else Proxy()
            os.environ.update(without_proxy_here(os.environ))
            with needed(what, fix, where=self._address):
                from upath import UPath

                options = _options(scheme, self._silent_s, self._proxy)
                self._fs = UPath(self._address, use_listings_cache=False, **options).fs
        if scheme == "s3":
            self._fs.retries = 1  # Retries are made here.

    def has_answered(self) -> None:
        """Wait for the store from now on: it has answered the process that sent a task here."""
        with self._lock:
            self._answered_at = self._answered_at or time.monotonic()

    def listing(self, prefix: str) -> dict[str, StoredObject]:
        """List all objects under the folder `prefix`, by path in it, with one request per thousand."""

        def find() -> dict[str, Any]:
            try:
                return dict(self._fs.find(self._path(prefix), detail=True))
            except FileNotFoundError:
                self._check_bucket()
                return {}

        start = len(self._path(prefix).rstrip("/")) + 1
        return {
            path[start:]: StoredObject(_version(details), int(details.get("size") or 0))
            for path, details in self._send(prefix, find).items()
            if path[start:]
        }

    def folders(self, prefix: str) -> list[str]:
        """List the names of the folders in the folder `prefix`, in order."""

        def look() -> list[dict[str, Any]]:
            try:
                return list(self._fs.ls(self._path(prefix), detail=True))
            except FileNotFoundError:
                self._check_bucket()
                return []

        entries = self._send(prefix, look)
        return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "directory")

    def read(self, key: str) -> bytes | None:
        """Return an object's bytes; None if it does not exist."""

        def fetch() -> bytes | None:
            try:
                return bytes(self._fs.cat_file(self._path(key)))
            except FileNotFoundError:
                self._check_bucket()
                return None

        return self._send(key, fetch)

    def read_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Read objects, many at a time; skip missing ones."""
        for start in range(0, len(keys), _AT_ONCE):
            wanted = [self._path(key) for key in list(keys)[start : start + _AT_ONCE]]
            found: dict[str, bytes] = {}
            self._send("", partial(self._fetch, wanted, found))
            for path, data in found.items():
                yield path[len(self._bucket) + 1 :], data

    def _fetch(self, wanted: Sequence[str], found: dict[str, bytes]) -> None:
        """Fetch the objects of `wanted` that `found` lacks, so that a retry fetches no object again."""
        failed = list[BaseException]()
        lacking = [path for path in wanted if path not in found]
        for path, data in self._fs.cat(lacking, on_error="return").items():
            if not isinstance(data, BaseException):
                found[path] = bytes(data)
            elif not isinstance(data, FileNotFoundError):
                failed.append(data)
        if failed:
            raise failed[0]

    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless it exists; return False if it does."""
        return self._put(key, data, {"mode": "create"})

    def replace(self, key: str, data: bytes, version: str) -> bool:
        """Replace that version of an object; return False if it has another version by now.

        Only S3 checks the version; elsewhere the last writer wins.
        """
        return self._put(key, data, {"IfMatch": version} if self._scheme == "s3" else {})

    def overwrite(self, key: str, data: bytes) -> None:
        """Write an object, replacing any existing one."""
        self._put(key, data, {})

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects."""

        def remove(key: str) -> None:
            with suppress(FileNotFoundError):
                self._fs.rm_file(self._path(key))

        for key in keys:
            self._send(key, partial(remove, key))

    def _put(self, key: str, data: bytes, condition: dict[str, str]) -> bool:
        # Nothing else limits how long a store may take no bytes.
        longest = self._silent_s + len(data) / _SLOWEST

        def write() -> bool:
            for attempt in range(_TRIES):
                try:
                    conditions = condition if self._takes_conditions else {}
                    self._fs.pipe_file(self._path(key), data, timeout=longest, **conditions)
                    return True
                except FileExistsError:
                    return False
                except FileNotFoundError:
                    self._check_bucket()
                    return False
                except (OSError, NotImplementedError) as error:
                    code = code_of(error)
                    if code in _TURNED_DOWN:
                        return False
                    if code == "NotImplemented" and condition and self._takes_conditions:
                        self._takes_conditions = False
                    elif code in _OVERLAPPED and attempt < _TRIES - 1:
                        time.sleep(0.05 * 2**attempt)
                    else:
                        raise
            return False

        return self._send(key, write)

    def _send(self, key: str, work: Callable[[], T]) -> T:
        """Send a request, repeatedly while the store fails in a transient way, and return its result.

        Raises:
            StoreDownError: the store has only failed for too long.
            FixtureError: the store refuses, or was never reached.
        """
        pause = _FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            if self._down:
                self._wait_anew(started)
            try:
                with self._translated_errors(key):
                    result = work()
            except _PassingError as error:
                self._failed(started, pause, error)
            except HarnessError:
                self._answered()
                raise
            else:
                self._answered()
                return result
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S, self._give_up_after_s / _PARTS)

    def _wait_anew(self, now: float) -> None:
        """Forget that the store was given up, unless that was just now: work that was sent before ends with it."""
        with self._lock:
            if self._down and now < self._down_until:
                raise self._down
            self._down, self._failing_since, self._attempts = None, None, 0
            self._answered_at = now if self._answered_at else None

    def _answered(self) -> None:
        with self._lock:
            self._answered_at, self._failing_since, self._attempts = time.monotonic(), None, 0

    def _failed(self, started: float, pause: float, error: _PassingError) -> None:
        """Count a failure; raise an error if no attempt should follow after `pause`."""
        with self._lock:
            if self._answered_at is None and not error.answered:
                raise error
            self._attempts += 1
            if self._failing_since is None:
                self._failing_since = max(started, self._answered_at or started)
            gone = time.monotonic() - self._failing_since
            if gone + pause >= self._give_up_after_s:
                self._down = StoreDownError(
                    f"The store {self._address} has failed every call for {gone:,.0f} s ({self._attempts} "
                    f"attempts). Last error: {error.what}",
                    fix="Rerun the same command when it answers again; --give-up-after SECONDS waits longer",
                )
                self._down_until = time.monotonic() + _DOWN_S
                raise self._down from None

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}" if key else self._bucket

    def _check_bucket(self) -> None:
        """Distinguish a missing object from a missing bucket."""
        self._is_there = self._is_there or bool(self._fs.exists(self._bucket))
        if not self._is_there:
            raise HarnessError(
                f"Bucket '{self._bucket}' does not exist, or these keys cannot see it",
                where=self._address,
                fix=f"Create it with the store's own tools, or check the address{_ENDPOINTS.get(self._scheme, '')}",
            )

    @contextmanager
    def _translated_errors(self, key: str = "") -> Iterator[None]:
        """Turn errors of a store and its libraries into errors that say what to do."""
        try:
            yield
        except HarnessError:
            raise
        except Exception as error:
            raise self._error(error, f"{self._address}/{key}".rstrip("/")) from error

    def _error(self, error: Exception, where: str) -> HarnessError:
        kinds = {type(link).__name__ for link in chain(error)}
        codes = {code_of(link) for link in chain(error)}
        if isinstance(error, PermissionError) or kinds & NO_LOGIN or codes & REFUSED:
            known = "refuses these keys" if not kinds & NO_LOGIN else "needs keys, but none are set"
            return FixtureError(f"The store {known}", where=where, fix=_LOGINS[self._scheme])
        if kinds & UNREACHED or any(isinstance(link, TimeoutError | ConnectionError) for link in chain(error)):
            again = f"Check the network and the address{_ENDPOINTS.get(self._scheme, '')}"
            return _PassingError(
                f"The store cannot be reached ({type(error).__name__})",
                where=f"{where}{self._proxy}",
                fix=f"{again}; then rerun the command, which continues where it stopped",
                answered=False,
            )
        if codes & BUSY or status_of(error) in PASSING_STATUSES or status_of(error) >= 500:
            return _PassingError(
                f"The store failed: {str(error).rstrip('.')}",
                where=where,
                fix="Rerun the command later; it continues where it stopped",
                answered=True,
            )
        return FixtureError(
            f"The store cannot do this: {type(error).__name__}: {error}",
            where=where,
            fix="Rerun the command, which continues where it stopped; if it fails again, check that these keys may "
            "list, read and write there",
        )


def _options(scheme: str, silent_s: float, proxy: Proxy) -> dict[str, Any]:
    """Return the options for a store's library.

    Args:
        silent_s: seconds for which a request may get no byte.
        proxy: the proxy before the store.
    """
    if scheme != "s3":
        return {}
    return {
        # Listed here, since libraries reuse clients made with other options.
        "endpoint_url": _endpoint(),
        # A missing store is noticed within seconds.
        "config_kwargs": {
            "retries": {"total_max_attempts": 2},
            "connect_timeout": min(10.0, silent_s),
            "read_timeout": silent_s,
            "max_pool_connections": 64,
            "proxies": {"http": proxy.url, "https": proxy.url} if proxy.url else {},
        },
        # Objects are read in one request, not in two or more.
        "max_concurrency": 1,
    }


def _version(details: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "generation"):
        if details.get(key):
            return str(details[key])
    changed = (
        details.get("LastModified") or details.get("last_modified") or details.get("mtime") or details.get("created")
    )
    return f"{changed}-{details.get('size')}"


def store_of(folder: RemoteFolder) -> Store:
    """Return the bucket of a folder; a process has one object per bucket and `give_up_after_s`."""
    patience = folder.patience
    give_up_after_s = patience.give_up_after_s or GIVE_UP_AFTER_S
    store = _store(folder.scheme, folder.bucket, give_up_after_s, _endpoint(), os.getpid())
    if patience.is_there:
        store.has_answered()
    return store


@cache
def _store(scheme: str, bucket: str, give_up_after_s: float, endpoint: str | None, process: int) -> Store:
    return Store(scheme, bucket, give_up_after_s)


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


# Local copies of objects in a store: the most recently used, up to a limit.

_OBJECTS = ".objects"
_FOLDER = ".folder"


class ObjectCache:
    """Copies of objects, in `.objects` of the folder that stands for a bucket.

    Their names derive from their content, so that no copy is ever out of date. Beyond the limit, the least recently
    used copies are removed. Any number of processes may share them.

    Args:
        here: folder that stands for the bucket.
        limit: bytes to keep for all buckets next to it; None: from the environment.
    """

    def __init__(self, here: Path, limit: int | None = None) -> None:
        self._root = here / _OBJECTS
        self._all = here.parent
        self._limit = cache_bytes() if limit is None else limit
        self._lock = threading.Lock()
        self._held: int | None = None
        """Approximate bytes, since other processes add and remove copies too."""
        self._in_use = set[Path]()
        """Directories that this process may read at any time until it ends."""

    @property
    def limit(self) -> int:
        """Number of bytes to keep."""
        return self._limit

    def has(self, name: str) -> bool:
        """Return whether there is a copy."""
        return (self._root / name).is_file()

    def read(self, name: str) -> bytes | None:
        """Return a copy; None if there is none."""
        path = self._root / name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep a copy. A full disk is not an error."""
        path = self._root / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as handle:
                    handle.write(data)
                os.replace(temporary, path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        self._grew(len(data), path)

    def folder(self, name: str) -> Path | None:
        """Return the copy of a directory; None if there is none."""
        path = self._root / (name + _FOLDER)
        with suppress(OSError):
            os.utime(path)
            self._in_use.add(path)
            return path
        return None

    def put_folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Keep a directory that `fill` creates in an empty one; it replaces any existing copy."""
        path = self._root / (name + _FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(suffix=".tmp", dir=path.parent, ignore_cleanup_errors=True) as workplace:
            new = Path(workplace, "new")
            new.mkdir()
            fill(new)
            with suppress(FileNotFoundError):
                # Not removed in place: another process may be reading it.
                path.replace(Path(workplace, "old"))
            new.replace(path)
        self._in_use.add(path)
        self._grew(_size(path), path)
        return path

    def _grew(self, size: int, newest: Path) -> None:
        with self._lock:
            self._held = self._held + size if self._held is not None else self._total()
            if self._held > self._limit:
                self._held = self._trim(newest)

    def _total(self) -> int:
        return sum(size for _, size, _ in self._copies())

    def _trim(self, newest: Path) -> int:
        """Remove the least recently used copies; return the bytes that are left."""
        copies = sorted(self._copies())
        held = sum(size for _, size, _ in copies)
        for _, size, path in copies:
            if held <= 0.9 * self._limit:
                break
            if path == newest or path in self._in_use:
                continue
            # A process that is reading the copy at this moment fetches it again.
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            held -= size
        return held

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of last use, size and path of each copy."""
        for root in self._all.glob(f"*/{_OBJECTS}"):
            for folder, folders, files in os.walk(root):
                for name in [folder for folder in folders if folder.endswith(_FOLDER)]:
                    folders.remove(name)
                    path = Path(folder, name)
                    with suppress(OSError):
                        yield path.stat().st_mtime, _size(path), path
                for name in files:
                    path = Path(folder, name)
                    with suppress(OSError):
                        status = path.stat()
                        yield status.st_mtime, status.st_size, path


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def packed(folder: Path) -> bytes:
    """Return a directory as the bytes of a tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Fill a directory from the bytes of `packed`.

    Raises:
        OSError, tarfile.TarError: the archive is damaged, or would write elsewhere.
    """
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
