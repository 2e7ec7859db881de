"""Identify who signed the runs of a board, by public keys that the board's maker supplies."""

from pathlib import Path

from msgspec import Struct

from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import UnreadableError
from longmemeval.errors import HarnessError
from longmemeval.pipeline.verify.keys import public_key
from longmemeval.pipeline.verify.signature import check_signature, fingerprint, stored_signature


class Signer(Struct, frozen=True):
    """The signer of a run."""

    key: str
    """sha256 of the public key; empty: the run is not signed."""
    name: str = ""
    """The name of the key's file; empty: the board's maker has no such key, so nothing was checked."""


class Signers:
    """The public keys in a folder, by fingerprint.

    A key that comes with a run would prove nothing: anyone who changes the run can supply another.

    Args:
        folder: holds files `*.pub` and `*.pem`; None: no keys.

    Raises:
        HarnessError: the folder does not exist, a file holds no public key, or the library is missing.
    """

    def __init__(self, folder: Path | None) -> None:
        if folder and not folder.is_dir():
            raise HarnessError("There is no such folder", where=str(folder), fix="Name a folder of public keys")
        files = sorted(path for path in folder.iterdir() if path.suffix in (".pub", ".pem")) if folder else []
        self._files = {fingerprint(public_key(path)): path for path in files}

    def of(self, folder: Path) -> Signer:
        """Return the signer of the run in `folder`.

        Raises:
            HarnessError: the signature does not match the files.
        """
        try:
            stored = stored_signature(folder)
        except UnreadableError as error:
            raise HarnessError(f"its signature is damaged: {error}") from None
        if stored is None:
            return Signer("")
        path = self._files.get(stored.key)
        if path is None:
            return Signer(stored.key)
        if problems := [problem for problem in check_signature(folder, path) if problem]:
            raise HarnessError(f"its signature does not hold: {listed(problems, 1)}")
        return Signer(stored.key, path.stem)
