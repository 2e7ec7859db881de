"""Sign a run: every file of it, and the judge checks that its corrected scores are based on."""

import base64
from pathlib import Path

import msgspec

from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.pipeline.verify.keys import private_key
from longmemeval.pipeline.verify.signature import (
    FORMAT,
    SIGNATURE,
    Signature,
    check_hashes,
    file_hashes,
    fingerprint,
    signed_bytes,
)
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.manifest import read_manifest, run_folder
from longmemeval.settings import Folders


def sign(run: str, key_file: Path, *, folders: Folders | None = None) -> Signature:
    """Sign a run that has ended and passes every check.

    A later change, such as another judge's judgements, is not covered; the run then has to be signed again.

    Args:
        run: its id.
        key_file: an Ed25519 private key, as PEM or OpenSSH.
        folders: the folders; None: from the environment.

    Returns:
        The content of `signature.json`.

    Raises:
        HarnessError: there is no such run, it has not ended, or the key cannot be used.
        IntegrityError: a check of `verify` fails.
    """
    folders = folders or Folders()
    folder = run_folder(folders.results_dir, run)
    key = private_key(key_file)
    if read_manifest(folder).status == "running":
        raise HarnessError(f"Run '{run}' has not ended", fix=f"Finish it first: longmemeval run --resume {run}")
    verification = verify(run, folders=folders)
    if problems := verification.problems:
        raise IntegrityError(
            f"Run '{run}' is not signed: {len(problems)} of its checks do not hold",
            where=problems[0],
            fix=f"longmemeval verify {run} lists them",
        )
    files, checks = file_hashes(folder), check_hashes(folders.results_dir, verification.judge_checks)
    signed = base64.b64encode(key.sign(signed_bytes(run, files, checks))).decode()
    signature = Signature(FORMAT, run, files, fingerprint(key.public_key()), signed, checks)
    write_atomic(folder / SIGNATURE, msgspec.json.format(msgspec.json.encode(signature), indent=2) + b"\n")
    return signature
