"""`longmemeval sign`."""

from pathlib import Path
from typing import Annotated

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, print_json, printable
from longmemeval.core.options import WHAT, Flag
from longmemeval.core.text.figures import count_of

EXAMPLE = "longmemeval sign demo-hybrid --key key.pem"


def sign(
    places: shared.Places,
    run: Annotated[str, Flag(metavar="RUN", help="Run to sign.", argument=True)],
    key: Annotated[Path, Flag(WHAT, "FILE", "Your Ed25519 private key (PEM, OpenSSH).")],
    as_json: shared.Json = False,
) -> None:
    """Sign a run with your private key.

    The checks of judges that its corrected scores are based on are signed too.
    Readers check it with your public key: longmemeval verify RUN --public-key FILE. Make a key with
    openssl genpkey -algorithm ed25519 -out key.pem, its public half with openssl pkey -in key.pem -pubout -out key.pub.
    """
    from longmemeval.pipeline.verify.signature import SIGNATURE
    from longmemeval.pipeline.verify.verify import sign as sign_run

    folders = places.folders()
    signature = sign_run(run, key, folders=folders)
    if as_json:
        print_json(signature)
        return
    signed = count_of(len(signature.files) + len(signature.checks), "file")
    out.print(f"Signed {signed}: {printable(str(folders.results_dir / run / SIGNATURE))}")
