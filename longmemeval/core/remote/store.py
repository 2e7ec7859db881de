"""A bucket: objects listed, read, and written so that of two writers one wins. Through universal-pathlib and fsspec.

A request that fails in a way that may pass (5xx, a time-out, a lost connection) is sent again until one is answered, or
nothing but failures have come for `give_up_after_s`.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from longmemeval.core.defaults import GIVE_UP_AFTER_S
from longmemeval.core.remote.error_codes import (
    BUSY,
    NO_LOGIN,
    PASSING_STATUSES,
    REFUSED,
    UNREACHED,
    chain,
    code_of,
    status_of,
)
from longmemeval.core.remote.places import RemoteFolder
from longmemeval.errors import FixtureError, HarnessError, StoreDownError

_EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
_LOGINS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; `aws sts get-caller-identity` tells "
    "whose they are",
    "gs": "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "az": "Set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_ENDPOINTS = {"s3": " (and AWS_ENDPOINT_URL, where the store is not Amazon's)"}
_AT_ONCE = 256
_TURNED_DOWN = {"PreconditionFailed", "412"}
_OVERLAPPED = {"ConditionalRequestConflict", "OperationAborted"}
_TRIES = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
"""Between two attempts of a request."""
_SILENT_S = 15.0
"""Without a byte for so long, or for a part of the patience where that is less, a request counts as failed."""
_DOWN_S = 10.0
"""For so long a store that was given up is given up for the tasks that follow."""
_SLOWEST = 100_000.0
"""Bytes that a store takes in a second, at least."""
_PARTS = 10
"""Of the time until giving up: the longest that a silent request or a pause takes."""

T = TypeVar("T")


class _PassingError(FixtureError):
    """A request failed in a way that may pass.

    Args:
        answered: whether the store said so itself.
    """

    def __init__(self, what: str, *, where: str, fix: str, answered: bool) -> None:
        super().__init__(what, where=where, fix=fix)
        self.answered = answered


class StoredObject(NamedTuple):
    """What a listing says of an object."""

    version: str
    size: int


class Store:
    """One bucket.

    Args:
        scheme: of its address.
        bucket: its name.

    Raises:
        HarnessError: the package for it is not installed.
    """

    def __init__(self, scheme: str, bucket: str) -> None:
        self._scheme = scheme
        self._bucket = bucket
        self._address = f"{scheme}://{bucket}"
        self._takes_conditions = True
        self._is_there = False
        self._lock = Lock()
        self._down: StoreDownError | None = None
        self._down_until = -math.inf
        self._answered_at: float | None = None
        self._give_up_after_s = GIVE_UP_AFTER_S
        self.be_patient(GIVE_UP_AFTER_S)

    def be_patient(self, give_up_after_s: float, *, is_there: bool = False) -> None:
        """Begin anew to wait for a store that fails.

        Args:
            give_up_after_s: seconds of failures without an answer after which nothing more is sent.
            is_there: it has answered the process that sent a task here; one that never answered is not waited for.
        """
        if is_there and time.monotonic() < self._down_until:
            return  # Tasks that were handed over before the command heard of it end with it.
        if is_there and self._answered_at and not self._down and give_up_after_s == self._give_up_after_s:
            return  # Other threads may be waiting.
        self._give_up_after_s = give_up_after_s
        self._silent_s = min(_SILENT_S, give_up_after_s / _PARTS)
        self._answered_at = time.monotonic() if is_there else None
        self._failing_since: float | None = None
        self._attempts = 0
        self._down = None
        with self._told():
            try:
                from upath import UPath

                options = _options(self._scheme, self._silent_s)
                self._fs = UPath(self._address, use_listings_cache=False, **options).fs
            except ImportError as error:
                extra = _EXTRAS[self._scheme]
                raise HarnessError(
                    f"Addresses that begin {self._scheme}:// need packages that are not installed",
                    where=self._address,
                    fix=f"Install them with `pip install 'longmemeval[{extra}]'`",
                ) from error
        if self._scheme == "s3":
            self._fs.retries = 1  # They are made here.

    def listing(self, prefix: str) -> dict[str, StoredObject]:
        """All objects under the folder `prefix`, by their paths in it; one request for a thousand."""

        def find() -> dict[str, Any]:
            try:
                return dict(self._fs.find(self._path(prefix), detail=True))
            except FileNotFoundError:
                self._check_bucket()
                return {}

        start = len(self._path(prefix).rstrip("/")) + 1
        return {
            path[start:]: StoredObject(_version(told), int(told.get("size") or 0))
            for path, told in self._asked(prefix, find).items()
            if path[start:]
        }

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders in the folder `prefix`, in their order."""

        def look() -> list[dict[str, Any]]:
            try:
                return list(self._fs.ls(self._path(prefix), detail=True))
            except FileNotFoundError:
                self._check_bucket()
                return []

        found = self._asked(prefix, look)
        return sorted(one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory")

    def read(self, key: str) -> bytes | None:
        """An object's bytes; None where it is not there."""

        def fetch() -> bytes | None:
            try:
                return bytes(self._fs.cat_file(self._path(key)))
            except FileNotFoundError:
                self._check_bucket()
                return None

        return self._asked(key, fetch)

    def read_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Objects, many at a time; those that are not there are left out."""
        for start in range(0, len(keys), _AT_ONCE):
            wanted = [self._path(key) for key in list(keys)[start : start + _AT_ONCE]]
            found: dict[str, bytes] = {}
            self._asked("", partial(self._fetch, wanted, found))
            for path, data in found.items():
                yield path[len(self._bucket) + 1 :], data

    def _fetch(self, wanted: Sequence[str], found: dict[str, bytes]) -> None:
        """Add to `found` what it lacks of `wanted`; what came before another failed is not fetched again."""
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
        """Write an object that is not there yet; false where one is."""
        return self._put(key, data, {"mode": "create"})

    def replace(self, key: str, data: bytes, version: str) -> bool:
        """Write an object in place of that version of it; false where it is another by now.

        Only S3 is asked to see to that; elsewhere the last writer wins.
        """
        return self._put(key, data, {"IfMatch": version} if self._scheme == "s3" else {})

    def overwrite(self, key: str, data: bytes) -> None:
        """Write an object, whatever is there."""
        self._put(key, data, {})

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects."""

        def remove(key: str) -> None:
            with suppress(FileNotFoundError):
                self._fs.rm_file(self._path(key))

        for key in keys:
            self._asked(key, partial(remove, key))

    def _put(self, key: str, data: bytes, condition: dict[str, str]) -> bool:
        # Nothing else limits how long a store may take no byte of it.
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

        return self._asked(key, write)

    def _asked(self, key: str, work: Callable[[], T]) -> T:
        """What a request gives, sent again while the store fails in a way that may pass.

        Raises:
            StoreDownError: it has done nothing else for too long.
            FixtureError: it refuses, or was never reached.
        """
        pause = _FIRST_PAUSE_S
        while True:
            if self._down:
                raise self._down
            begun = time.monotonic()
            try:
                with self._told(key):
                    found = work()
            except _PassingError as error:
                self._failed(begun, pause, error)
            except HarnessError:
                self._answered()
                raise
            else:
                self._answered()
                return found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S, self._give_up_after_s / _PARTS)

    def _answered(self) -> None:
        with self._lock:
            self._answered_at, self._failing_since, self._attempts = time.monotonic(), None, 0

    def _failed(self, begun: float, pause: float, error: _PassingError) -> None:
        """Count a failure; raise where no attempt is to follow after `pause`."""
        with self._lock:
            if self._answered_at is None and not error.answered:
                raise error
            self._attempts += 1
            if self._failing_since is None:
                self._failing_since = max(begun, self._answered_at or begun)
            gone = time.monotonic() - self._failing_since
            if gone + pause >= self._give_up_after_s:
                self._down = StoreDownError(
                    f"The store {self._address} has answered nothing but failures for {gone:,.0f} s ({self._attempts} "
                    f"attempts). The last: {error.what}",
                    fix="Rerun the same command when it answers again; --give-up-after SECONDS waits longer",
                )
                self._down_until = time.monotonic() + _DOWN_S
                raise self._down from None

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}" if key else self._bucket

    def _check_bucket(self) -> None:
        """Tell apart an object that is not there and a bucket that is not."""
        self._is_there = self._is_there or bool(self._fs.exists(self._bucket))
        if not self._is_there:
            raise HarnessError(
                f"There is no bucket '{self._bucket}', or these keys may not see it",
                where=self._address,
                fix=f"Make it with the store's own tools, or check the address{_ENDPOINTS.get(self._scheme, '')}",
            )

    @contextmanager
    def _told(self, key: str = "") -> Iterator[None]:
        """What a store and its libraries raise, as errors that say what to do."""
        try:
            yield
        except HarnessError:
            raise
        except Exception as error:
            raise self._error(error, f"{self._address}/{key}".rstrip("/")) from error

    def _error(self, error: Exception, where: str) -> HarnessError:
        kinds = {type(one).__name__ for one in chain(error)}
        codes = {code_of(one) for one in chain(error)}
        if isinstance(error, PermissionError) or kinds & NO_LOGIN or codes & REFUSED:
            known = "refuses these keys" if not kinds & NO_LOGIN else "wants keys, and none are set"
            return FixtureError(f"The store {known}", where=where, fix=_LOGINS[self._scheme])
        if kinds & UNREACHED or any(isinstance(one, TimeoutError | ConnectionError) for one in chain(error)):
            again = f"Check the network and the address{_ENDPOINTS.get(self._scheme, '')}"
            return _PassingError(
                f"The store cannot be reached ({type(error).__name__})",
                where=where,
                fix=f"{again}; then rerun the command, which goes on where it stopped",
                answered=False,
            )
        if codes & BUSY or status_of(error) in PASSING_STATUSES or status_of(error) >= 500:
            return _PassingError(
                f"It fails: {str(error).rstrip('.')}",
                where=where,
                fix="Rerun the command later; it goes on where it stopped",
                answered=True,
            )
        return FixtureError(
            f"The store does not do this: {type(error).__name__}: {error}",
            where=where,
            fix="Rerun the command, which goes on where it stopped; if it fails again, check that these keys may list, "
            "read and write there",
        )


def _options(scheme: str, silent_s: float) -> dict[str, Any]:
    """What a store's library is told.

    Args:
        scheme: of the address.
        silent_s: how long a request may go without a byte.
    """
    if scheme != "s3":
        return {}
    return {
        # Named here, for libraries keep what they made for another one.
        "endpoint_url": os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None,
        # A store that is not there is told in seconds.
        "config_kwargs": {
            "retries": {"total_max_attempts": 2},
            "connect_timeout": min(10.0, silent_s),
            "read_timeout": silent_s,
            "max_pool_connections": 64,
        },
        # Objects are read in one request, not in two or more.
        "max_concurrency": 1,
    }


def _version(told: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "generation"):
        if told.get(key):
            return str(told[key])
    changed = told.get("LastModified") or told.get("last_modified") or told.get("mtime") or told.get("created")
    return f"{changed}-{told.get('size')}"


def store_of(folder: RemoteFolder) -> Store:
    """The bucket of a folder; one object for each in a process."""
    return _store(folder.scheme, folder.bucket, os.getpid())


@cache
def _store(scheme: str, bucket: str, process: int) -> Store:
    return Store(scheme, bucket)
