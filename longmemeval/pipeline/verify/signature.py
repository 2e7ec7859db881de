"""Ed25519 signatures (RFC 8032) of all files of a run and of the checks that its corrected scores are based on.

Hashes inside a folder show damage; anyone who edits an answer can recompute them. A signature shows who vouches for
the files, provided that the key it is checked with comes from the reader and not from the folder.
"""

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, sha256_file
from longmemeval.core.installation import install_command
from longmemeval.core.text_files import UnreadableError, decode_format
from longmemeval.errors import HarnessError
from longmemeval.results.graded.judge_checks import CHECK, JUDGEMENTS, PLANTS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


# Read the Ed25519 keys, in the formats of OpenSSL and OpenSSH, that sign runs and check signatures.

PASSWORD = "LONGMEMEVAL_KEY_PASSWORD"
"""The environment variable with the password of an encrypted key."""

_MAKE_KEY = "openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub"


def private_key(path: Path) -> "Ed25519PrivateKey":
    """Return the key that signs.

    Raises:
        HarnessError: the file holds none, it is encrypted and its password is not in `PASSWORD`, or the library is
            not installed.
    """
    _require_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    data, password = _read(path), os.environ.get(PASSWORD, "").encode() or None
    load = serialization.load_ssh_private_key if b"OPENSSH" in data else serialization.load_pem_private_key
    try:
        key = load(data, password=password)
    except TypeError as error:
        fix = f"Put its password into {PASSWORD}" if password is None else f"It has no password: unset {PASSWORD}"
        raise HarnessError("The key cannot be opened", where=str(path), fix=fix) from error
    except ValueError as error:
        fix = f"Check {PASSWORD}, or make a key: {_MAKE_KEY}"
        raise HarnessError("The file holds no private key that can be opened", where=str(path), fix=fix) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise HarnessError("The key is not an Ed25519 key", where=str(path), fix=f"Make one: {_MAKE_KEY}")
    return key


def public_key(path: Path) -> "Ed25519PublicKey":
    """Return the key that a signature is checked with.

    Raises:
        HarnessError: the file holds none, or the library is not installed.
    """
    _require_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    data = _read(path)
    load = serialization.load_ssh_public_key if data.startswith(b"ssh-") else serialization.load_pem_public_key
    try:
        key = load(data)
    except ValueError as error:
        fix = "Take the signer's key.pub: PEM, or one line that begins with ssh-ed25519"
        raise HarnessError("The file holds no public key", where=str(path), fix=fix) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise HarnessError("The key is not an Ed25519 key", where=str(path))
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HarnessError(f"The key cannot be read: {error.strerror}", where=str(path)) from error


def _require_library() -> None:
    if not find_spec("cryptography"):
        raise HarnessError("Signatures need the cryptography library", fix=f"Run: {install_command('sign')}")


SIGNATURE = "signature.json"
FORMAT = 2
"""Since format 2 the judge checks that corrected scores rest on are signed too."""
_PURPOSE = b"longmemeval run\n"
"""A prefix of the signed bytes, so that a signature made for something else is not valid here."""


class Signature(Struct, frozen=True):
    """`signature.json`."""

    format: int
    run_id: str
    files: dict[str, str]
    """sha256 of every file by its path inside the run's folder."""
    key: str
    """sha256 of the public key, to say which one is needed; the key itself is not stored."""
    signature: str
    """The signature over run id, files and checks, as base64."""
    checks: dict[str, str] = {}
    """sha256 of the files of judge checks that corrected scores rest on, by their path in the results folder."""


def stored_signature(folder: Path) -> Signature | None:
    """Return the signature in a run's folder, unchecked; None: the run is not signed.

    Raises:
        UnreadableError: it is damaged.
    """
    path = folder / SIGNATURE
    return decode_format(path.read_bytes(), Signature, FORMAT, "The signature", SIGNATURE) if path.exists() else None


def covers_no_checks(folder: Path) -> bool:
    """Return whether the signature of a run is from before judge checks were signed."""
    try:
        stored = stored_signature(folder)
    except UnreadableError:
        return False
    return stored is not None and stored.format < 2


def check_signature(folder: Path, key_file: Path, checks: Sequence[str] | None = None) -> Iterator[str | None]:
    """Check that a run's files are those that the owner of a key signed; yield the problem or None for each check.

    Args:
        key_file: the reader's own copy of the public key, as PEM or OpenSSH.
        checks: paths of the judge checks that its corrected scores rest on now; None: no corrected score is shown, so
            that neither these nor the signed ones matter.

    Raises:
        HarnessError: the key cannot be used.
    """
    key = public_key(key_file)
    try:
        stored = stored_signature(folder)
    except UnreadableError as error:
        yield f"{SIGNATURE}: is damaged: {error}"
        return
    if stored is None:
        yield f"{SIGNATURE}: is missing; the run is not signed"
        return
    if stored.run_id != folder.name:
        yield f"{SIGNATURE}: is of run '{stored.run_id}'"
        return
    if not _holds(key, stored):
        other = "" if stored.key == fingerprint(key) else f"; it was made with the key of sha256 {stored.key[:16]}…"
        yield f"{SIGNATURE}: is not by the owner of {key_file.name}{other}"
        return
    yield None
    yield from _compared(stored.files, file_hashes(folder))
    if checks is not None and stored.format >= 2:
        signed = dict.fromkeys(name.rpartition("/")[0] for name in stored.checks)
        yield from _compared(stored.checks, check_hashes(folder.parent, [*signed, *checks]))


def _compared(signed: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str | None]:
    for name in sorted(found.keys() | signed.keys()):
        if name not in found:
            yield f"{name}: was signed and is missing"
        elif name not in signed:
            yield f"{name}: is not covered by the signature"
        else:
            yield None if found[name] == signed[name] else f"{name}: was changed after it was signed"


def _holds(key: "Ed25519PublicKey", stored: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        checks = stored.checks if stored.format >= 2 else None
        signed = signed_bytes(stored.run_id, stored.files, checks)
        key.verify(base64.b64decode(stored.signature, validate=True), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def signed_bytes(run_id: str, files: dict[str, str], checks: dict[str, str] | None) -> bytes:
    """Return the signed bytes: run id and hashes in one fixed form; without checks as in format 1."""
    covered = {"run_id": run_id, "files": files} | ({} if checks is None else {"checks": checks})
    return _PURPOSE + msgspec.json.encode(covered, order="deterministic")


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below the folder except the signature and locks."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files if path != folder / SIGNATURE}


def check_hashes(results_dir: Path, checks: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of the files of judge checks, by their path in the results folder."""
    names = sorted(f"{check}/{name}" for check in set(checks) for name in (PLANTS, JUDGEMENTS, CHECK))
    return {name: sha256_file(results_dir / name) for name in names if (results_dir / name).is_file()}


def fingerprint(key: "Ed25519PublicKey") -> str:
    """Return the sha256 that identifies a key."""
    return sha256_bytes(key.public_bytes_raw())
