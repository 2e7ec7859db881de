"""Read the Ed25519 keys, in the formats of OpenSSL and OpenSSH, that sign runs and check signatures."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

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
        raise HarnessError("Signatures need the cryptography library", fix="Run: pip install 'longmemeval[sign]'")
