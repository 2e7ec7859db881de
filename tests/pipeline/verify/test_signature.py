"""A signature holds for the very files that were signed, and only under the reader's own key."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.core.files import sha256_file
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.signature import PASSWORD, SIGNATURE, file_hashes, signed_bytes
from longmemeval.pipeline.verify.verify import sign, verify
from longmemeval.settings import Folders
from tests.pipeline.finished import finished
from tests.support import longmemeval

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")


def make_key(folder: Path, name: str, *, password: bytes | None = None, ssh: bool = False) -> tuple[Path, Path]:
    """A new pair of keys as the usual tools write them: the private and the public file."""
    key = ed25519.Ed25519PrivateKey.generate()
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private_format = serialization.PrivateFormat.OpenSSH if ssh else serialization.PrivateFormat.PKCS8
    private, public = folder / name, folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, private_format, encryption))
    encoding = serialization.Encoding.OpenSSH if ssh else serialization.Encoding.PEM
    public_format = serialization.PublicFormat.OpenSSH if ssh else serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(encoding, public_format))
    return private, public


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Folders:
    """Folders with a graded run `r`: q0 right, q1 wrong."""
    return finished(tmp_path_factory, tmp_path, 2, said=("red", "no idea"))[1]


@pytest.mark.parametrize("ssh", [False, True])
def test_a_signed_run_is_checked_with_the_public_key(tmp_path: Path, folders: Folders, ssh: bool) -> None:
    private, public = make_key(tmp_path, "key", ssh=ssh)
    unsigned = verify("r", public_key=public, folders=folders)
    assert unsigned.problems == (f"{SIGNATURE}: is missing; the run is not signed",)
    made = sign("r", private, folders=folders)
    assert {"run.json", "answers.jsonl", "prompts.jsonl"} < made.files.keys()
    signed = verify("r", public_key=public, folders=folders)
    assert not signed.problems
    assert signed.checked == verify("r", folders=folders).checked + 1 + len(made.files)


def forge(folder: Path) -> None:
    """The wrong answer becomes right, and every hash inside the folder is made anew."""
    answers = folder / "answers.jsonl"
    answers.write_text(answers.read_text().replace('"no idea"', '"blue"'))
    manifest = json.loads((folder / "run.json").read_text())
    manifest["files"]["answers.jsonl"] = sha256_file(answers)
    (folder / "run.json").write_text(json.dumps(manifest))


def test_a_forged_run_fails_under_any_key_but_the_forgers(tmp_path: Path, folders: Folders) -> None:
    private, public = make_key(tmp_path, "author")
    sign("r", private, folders=folders)
    folder = folders.results_dir / "r"
    forge(folder)
    for kind in ("judgements", "metrics"):
        shutil.rmtree(folder / kind)
    (folders.results_dir / "index.jsonl").unlink()
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    assert not verify("r", folders=folders).problems
    changed = verify("r", public_key=public, folders=folders).problems
    assert "answers.jsonl: was changed after it was signed" in changed

    forger, forgers_public = make_key(tmp_path, "forger")
    sign("r", forger, folders=folders)
    assert not verify("r", public_key=forgers_public, folders=folders).problems
    (problem,) = verify("r", public_key=public, folders=folders).problems
    assert "is not by the owner of author.pub; it was made with the key of sha256" in problem
    done = longmemeval("verify", "r", "--public-key", public, cwd=tmp_path, code=3, **environment(folders))
    assert "is not by the owner of author.pub" in done.stderr


def environment(folders: Folders) -> dict[str, str]:
    return {
        f"LONGMEMEVAL_{name}_DIR": str(getattr(folders, f"{name.lower()}_dir"))
        for name in ("DATA", "PREPARED", "RESULTS")
    }


def add_file(folder: Path) -> str:
    (folder / "judgements" / "other.jsonl").write_text("")
    return "judgements/other.jsonl: is not covered by the signature"


def remove_prompts(folder: Path) -> str:
    (folder / "prompts.jsonl").unlink()
    return "prompts.jsonl: was signed and is missing"


def take_another_hash(folder: Path) -> str:
    stored = json.loads((folder / SIGNATURE).read_text())
    stored["files"]["answers.jsonl"] = "0" * 64
    (folder / SIGNATURE).write_text(json.dumps(stored))
    return f"{SIGNATURE}: is not by the owner of key.pub"


def cut_signature(folder: Path) -> str:
    (folder / SIGNATURE).write_text((folder / SIGNATURE).read_text()[:80])
    return f"{SIGNATURE}: is damaged: "


def spoil_base64(folder: Path) -> str:
    stored = json.loads((folder / SIGNATURE).read_text())
    (folder / SIGNATURE).write_text(json.dumps(stored | {"signature": "§"}))
    return f"{SIGNATURE}: is not by the owner of key.pub"


def take_anothers(folder: Path) -> str:
    stored = json.loads((folder / SIGNATURE).read_text())
    (folder / SIGNATURE).write_text(json.dumps(stored | {"run_id": "s"}))
    return f"{SIGNATURE}: is of run 's'"


def sign_under_the_same_name(folder: Path) -> str:
    """By another key, without the command, and naming the author's."""
    stored = json.loads((folder / SIGNATURE).read_text())
    forged = ed25519.Ed25519PrivateKey.generate().sign(signed_bytes("r", file_hashes(folder), {}))
    signature = {"files": file_hashes(folder), "signature": base64.b64encode(forged).decode()}
    (folder / SIGNATURE).write_text(json.dumps(stored | signature))
    return f"{SIGNATURE}: is not by the owner of key.pub"


@pytest.mark.parametrize(
    "change",
    [sign_under_the_same_name, add_file, remove_prompts, take_another_hash, cut_signature, spoil_base64, take_anothers],
)
def test_every_change_is_named(tmp_path: Path, folders: Folders, change: Callable[[Path], str]) -> None:
    private, public = make_key(tmp_path, "key")
    sign("r", private, folders=folders)
    expected = change(folders.results_dir / "r")
    assert any(problem.startswith(expected) for problem in verify("r", public_key=public, folders=folders).problems)


def test_what_does_not_verify_is_not_signed(tmp_path: Path, folders: Folders) -> None:
    private, _ = make_key(tmp_path, "key")
    answers = folders.results_dir / "r" / "answers.jsonl"
    answers.write_text(answers.read_text().replace("red", "green"))
    with pytest.raises(IntegrityError, match="'r' was not signed"):
        sign("r", private, folders=folders)
    assert not (folders.results_dir / "r" / SIGNATURE).exists()


def test_an_encrypted_key_asks_for_its_password(
    tmp_path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = make_key(tmp_path, "key", password=b"correct horse")
    with pytest.raises(HarnessError, match=f"Put its password into {PASSWORD}"):
        sign("r", private, folders=folders)
    monkeypatch.setenv(PASSWORD, "wrong")
    with pytest.raises(HarnessError, match="no private key that can be opened"):
        sign("r", private, folders=folders)
    monkeypatch.setenv(PASSWORD, "correct horse")
    sign("r", private, folders=folders)
    assert not verify("r", public_key=public, folders=folders).problems


def test_other_files_are_no_keys(tmp_path: Path, folders: Folders) -> None:
    private, public = make_key(tmp_path, "key")
    with pytest.raises(HarnessError, match="holds no private key"):
        sign("r", public, folders=folders)
    with pytest.raises(HarnessError, match="holds no public key"):
        verify("r", public_key=private, folders=folders)
    with pytest.raises(HarnessError, match="cannot be read: No such file"):
        verify("r", public_key=tmp_path / "none", folders=folders)
    with pytest.raises(HarnessError, match="only runs are signed"):
        verify("colours/default", public_key=public, folders=folders)
