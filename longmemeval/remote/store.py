"""A bucket: objects listed, read, and written so that of two writers one wins. Through universal-pathlib and fsspec."""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from longmemeval.errors import FixtureError, HarnessError
from longmemeval.remote.places import RemoteFolder

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
        with self._told():
            try:
                from upath import UPath

                self._fs = UPath(self._address, use_listings_cache=False, **_options(scheme)).fs
            except ImportError as error:
                extra = _EXTRAS[scheme]
                raise HarnessError(
                    f"Addresses that begin {scheme}:// need packages that are not installed",
                    where=self._address,
                    fix=f"Install them with `pip install 'longmemeval[{extra}]'`",
                ) from error

    def listing(self, prefix: str) -> dict[str, StoredObject]:
        """All objects under the folder `prefix`, by their paths in it; one request for a thousand."""
        with self._told(prefix):
            try:
                found = self._fs.find(self._path(prefix), detail=True)
            except FileNotFoundError:
                self._check_bucket()
                return {}
        start = len(self._path(prefix).rstrip("/")) + 1
        return {
            path[start:]: StoredObject(_version(told), int(told.get("size") or 0))
            for path, told in found.items()
            if path[start:]
        }

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders in the folder `prefix`, in their order."""
        with self._told(prefix):
            try:
                found = self._fs.ls(self._path(prefix), detail=True)
            except FileNotFoundError:
                self._check_bucket()
                return []
        return sorted(one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory")

    def read(self, key: str) -> bytes | None:
        """An object's bytes; None where it is not there."""
        with self._told(key):
            try:
                return bytes(self._fs.cat_file(self._path(key)))
            except FileNotFoundError:
                self._check_bucket()
                return None

    def read_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Objects, many at a time; those that are not there are left out."""
        paths = [self._path(key) for key in keys]
        for start in range(0, len(paths), _AT_ONCE):
            with self._told():
                found = self._fs.cat(paths[start : start + _AT_ONCE], on_error="return")
                for path, data in found.items():
                    if isinstance(data, FileNotFoundError):
                        continue
                    if isinstance(data, BaseException):
                        raise data
                    yield path[len(self._bucket) + 1 :], bytes(data)

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
        with self._told():
            for key in keys:
                try:
                    self._fs.rm_file(self._path(key))
                except FileNotFoundError:
                    continue

    def _put(self, key: str, data: bytes, condition: dict[str, str]) -> bool:
        with self._told(key):
            for attempt in range(_TRIES):
                try:
                    self._fs.pipe_file(self._path(key), data, **condition if self._takes_conditions else {})
                    return True
                except FileExistsError:
                    return False
                except FileNotFoundError:
                    self._check_bucket()
                    return False
                except (OSError, NotImplementedError) as error:
                    code = _code(error)
                    if code in _TURNED_DOWN:
                        return False
                    if code == "NotImplemented" and condition and self._takes_conditions:
                        self._takes_conditions = False
                    elif code in _OVERLAPPED and attempt < _TRIES - 1:
                        time.sleep(0.05 * 2**attempt)
                    else:
                        raise
        return False

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
        kinds = {type(one).__name__ for one in _chain(error)}
        codes = {_code(one) for one in _chain(error)}
        if isinstance(error, PermissionError) or kinds & _NO_LOGIN or codes & _REFUSED:
            known = "refuses these keys" if not kinds & _NO_LOGIN else "wants keys, and none are set"
            return FixtureError(f"The store {known}", where=where, fix=_LOGINS[self._scheme])
        if kinds & _UNREACHED or isinstance(error, TimeoutError | ConnectionError):
            again = f"Check the network and the address{_ENDPOINTS.get(self._scheme, '')}"
            return FixtureError(
                f"The store cannot be reached ({type(error).__name__})",
                where=where,
                fix=f"{again}; then rerun the command, which goes on where it stopped",
            )
        return FixtureError(
            f"The store does not do this: {type(error).__name__}: {error}",
            where=where,
            fix="Rerun the command, which goes on where it stopped; if it fails again, check that these keys may list, "
            "read and write there",
        )


def _options(scheme: str) -> dict[str, Any]:
    if scheme != "s3":
        return {}
    return {
        # Named here, for libraries keep what they made for another one.
        "endpoint_url": os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None,
        # A store that is not there is told in seconds.
        "config_kwargs": {"retries": {"total_max_attempts": 2}, "connect_timeout": 10, "max_pool_connections": 64},
        # Objects are read in one request, not in two or more.
        "max_concurrency": 1,
    }


_NO_LOGIN = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}
_REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403"}
_UNREACHED = {
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ClientConnectorError",
    "ConnectionClosedError",
    "ServiceRequestError",
    "FSTimeoutError",
}


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or one.__context__


def _code(error: BaseException) -> str:
    """What a store of S3's kind calls an error."""
    for one in _chain(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


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
