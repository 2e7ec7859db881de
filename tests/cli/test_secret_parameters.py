"""Secrets among the parameters of a memory: the memory gets them, and no file and no screen shows them."""

import hashlib
import json
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

from longmemeval.core.secrets.parameters import (
    comparable,
    is_secret,
    public,
    public_command,
    public_words,
    resolved,
    resolved_words,
    words_without_secrets,
)
from longmemeval.errors import HarnessError
from tests.support import json_lines, longmemeval

TOKEN, OTHER = "q7zXk4w", "v9pRm2c"
"""Shorter than what is found by value."""
MEMORY = f"""
import hashlib

class Keyed:
    capabilities = {{"models": "none"}}

    def __init__(self, token="", shortest=3, headers=None):
        self.stored = []
        known = {[hashlib.sha256(token.encode()).hexdigest() for token in (TOKEN, OTHER)]}
        if hashlib.sha256(token.encode()).hexdigest() not in known:
            raise ValueError("this is not the token")

    def add(self, session):
        self.stored += [{{"text": message.content, "message_ids": [message.id]}} for message in session.messages]

    def search(self, query, *, date, limit):
        return self.stored[:limit]
"""
CHILD = """
import sys
from longmemeval.memory.external.serve import main
import keyed

sys.path.insert(0, ".")
token = sys.argv[sys.argv.index("--token") + 1]
keyed.Keyed.__init__.__defaults__ = (token, 3, None)
sys.argv[1:] = ["keyed:Keyed"]
main()
"""


def holds_none(folder: Path, *shown: str) -> None:
    for secret in (TOKEN, OTHER, *(hashlib.sha256(one.encode()).hexdigest() for one in (TOKEN, OTHER))):
        for text in shown:
            assert secret not in text, text
        for path in folder.rglob("*"):
            assert secret not in path.name
            if path.is_file() and path.suffix != ".py":
                assert secret.encode() not in path.read_bytes(), path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "keyed.py").write_text(MEMORY)
    (tmp_path / "child.py").write_text(CHILD)
    return tmp_path


def memory(door: str, secret: str) -> list[str]:
    if door == "class":
        headers = json.dumps({"Authorization": secret})
        return ["--memory", "keyed:Keyed", "--set", f"token={secret}", "--set", f"headers={headers}"]
    return ["--memory", f"process:{sys.executable} child.py --token {secret}"]


ASKED = ("--dataset", "sample", "--limit", "2")
RUN = ("run", *ASKED, "--model", "offline/extractive", "--run-id", "r")


@pytest.mark.slow
@pytest.mark.parametrize("door", ["class", "process"])
def test_a_secret_is_stored_and_shown_nowhere(folder: Path, door: str) -> None:
    own, shown = memory(door, TOKEN), list[str]()

    def give(*words: str, code: int = 0, **environment: str) -> str:
        done = longmemeval(*words, cwd=folder, code=code, **environment)
        shown.extend((done.stdout, done.stderr))
        return done.stdout + done.stderr

    (name,) = [word for word in own if word.startswith(("keyed:", "process:"))]
    give("memory", "check", name, *own[2:])
    assert "longmemeval prepare" in give(*RUN, *own, code=2)
    give("prepare", *ASKED, *own, "--dry-run")
    give("prepare", *ASKED, *own)
    give(*RUN, *own, "--dry-run")
    give(*RUN, *own)
    give("evaluate", "r", "--judge", "offline/lexical")
    for words in (
        *(("compare", "r"), ("compare", "r", "--json"), ("verify", "r"), ("status", "r", "--json")),
        *(("report", "r", "--output", "r.html"), ("report", "r", "--format", "md", "--output", "r.md")),
        *(("export", "r", "--format", form) for form in ("csv", "jsonl", "inspect-json")),
    ):
        give(*words)
    # A secret that was stored as [redacted] equals any that is given; it is given anew where it is needed.
    give(*RUN, *memory(door, OTHER))
    give("prepare", *ASKED, *memory(door, OTHER))
    give(*RUN, *memory(door, "env:MY_TOKEN"), MY_TOKEN=TOKEN)
    assert "was not stored" in give("run", "--like", "r", "--run-id", "again", code=2)
    recorded = json.loads((folder / "results/r/run.json").read_text())
    assert "[redacted]" in json.dumps(recorded["settings"]["memory"])
    assert "[redacted]" in json.dumps(recorded["environment"]["command"])
    assert "[redacted]" in recorded["prepare"]
    metas = list(folder.glob("prepared-data/sample/default/*/meta.json"))
    assert len(metas) == 2
    assert all("[redacted]" in meta.read_text() for meta in metas)
    assert len({part.name for meta in metas for part in meta.parent.iterdir() if part.is_dir()}) == 1
    holds_none(folder, *shown)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["class", "process"])
def test_a_secret_in_the_environment_is_named_and_found_again(folder: Path, door: str) -> None:
    own = memory(door, "env:MY_TOKEN")
    unset = longmemeval("prepare", *ASKED, *own, cwd=folder, code=2)
    assert "MY_TOKEN" in unset.stderr
    assert not list(folder.glob("prepared-data/sample/default/*/meta.json"))
    for words in (("prepare", *ASKED, *own), (*RUN, *own), ("run", "--like", "r", "--strict", "--run-id", "again")):
        longmemeval(*words, cwd=folder, MY_TOKEN=TOKEN)
    recorded = json.loads((folder / "results/again/run.json").read_text())
    assert "env:MY_TOKEN" in json.dumps(recorded["settings"]["memory"])
    assert "env:MY_TOKEN" in recorded["prepare"]
    assert recorded["totals"]["answered"] == 2
    holds_none(folder)


@pytest.mark.slow
def test_what_stored_a_secret_before_is_read_and_resumed(folder: Path) -> None:
    """The files of a version that stored secrets, whose parts were named by a hash of them."""
    own = memory("class", TOKEN)
    longmemeval("prepare", *ASKED, *own, cwd=folder)
    longmemeval(*RUN, *own, cwd=folder)
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder)
    preparation, run = folder / "prepared-data/sample/default", folder / "results/r"
    configuration = {"token": TOKEN, "headers": {"Authorization": TOKEN}}
    identity = msgspec.json.encode(["keyed:Keyed", configuration], order="deterministic")
    before = f"Keyed-{hashlib.sha256(identity).hexdigest()[:8]}"
    (now,) = {part.name for part in preparation.glob("*/Keyed-*")}
    for part in preparation.glob("*/Keyed-*"):
        part.rename(part.with_name(before))
    for file in (*preparation.glob("*/meta.json"), preparation / "prepare.jsonl", run / "run.json"):
        file.write_text(file.read_text().replace("[redacted]", TOKEN).replace(now, before))
    manifest = json.loads((run / "run.json").read_text())
    decisive = [manifest["dataset"]["content_sha256"], manifest["question_ids"], manifest["settings"]]
    settings_sha256 = hashlib.sha256(msgspec.json.encode(decisive, order="sorted")).hexdigest()
    (line,) = json_lines(folder / "results/index.jsonl")
    (folder / "results/index.jsonl").write_text(json.dumps(line | {"settings_sha256": settings_sha256}) + "\n")
    longmemeval("verify", "r", cwd=folder)
    manifest |= {"status": "running", "files": {}, "ended_at": ""}
    (run / "run.json").write_text(json.dumps(manifest))
    first = (run / "answers.jsonl").read_text().splitlines(keepends=True)[0]
    (run / "answers.jsonl").write_text(first)
    done = longmemeval(*RUN, *memory("class", OTHER), cwd=folder)
    assert "2 of 2 questions answered" in done.stdout
    assert (run / "answers.jsonl").read_text().startswith(first)
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder)
    longmemeval("verify", "r", cwd=folder)
    assert "Already prepared" in longmemeval("prepare", *ASKED, *own, cwd=folder).stdout
    assert {part.name for part in preparation.glob("*/Keyed-*")} == {before}
    assert TOKEN not in (run / "run.json").read_text()


def test_names_that_say_secret() -> None:
    secret = ("token", "api_key", "apiKey", "licenseKey", "key", "password", "client_secret", "Authorization", "auth")
    assert [name for name in secret if not is_secret(name, "abc")] == []
    assert [name for name in secret if not is_secret(name, 4711)] == []
    plain = ("max_tokens", "token_budget", "token_counter", "sort_key", "monkey", "keys", "author", "compass", "top_k")
    assert [name for name in plain if is_secret(name, "abc")] == []
    assert not is_secret("tokens", 4096)
    assert not is_secret("token", None)


def test_parameters_in_their_three_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"token": "abc", "limit": 3, "headers": {"Authorization": "Bearer abc"}, "api_keys": ["a", "env:KEY"]}
    shown = {"token": "[redacted]", "limit": 3, "headers": {"Authorization": "[redacted]"}}
    assert public(given) == {**shown, "api_keys": ["[redacted]", "env:KEY"]}
    assert comparable(given) == {**shown, "api_keys": ["[redacted]", "[redacted]"]} == comparable(public(given))
    monkeypatch.delenv("KEY", raising=False)
    with pytest.raises(HarnessError, match="not set: KEY"):
        resolved(given)
    monkeypatch.setenv("KEY", "b")
    assert resolved(given) == {**given, "api_keys": ["a", "b"]}
    with pytest.raises(HarnessError, match="was not stored"):
        resolved(public(given))
    # Only where a name says secret: elsewhere a setting is what is recorded.
    assert resolved({"mode": "env:KEY"}) == {"mode": "env:KEY"}


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python m.py --token abc --n 3", "python m.py --token [redacted] --n 3"),
        ("python m.py --token=abc", "python m.py --token=[redacted]"),
        ("env API_KEY=abc python m.py", "env API_KEY=[redacted] python m.py"),
        ("run --set 'token=a b' --set=password=x", "run --set token=[redacted] --set=password=[redacted]"),
        ("run --set 'headers={auth: abc}'", "run --set \"headers={'auth': '[redacted]'}\""),
        ("run --memory 'process:m --key abc'", "run --memory 'process:m --key [redacted]'"),
        ("run --memory='process:m --key abc'", "run '--memory=process:m --key [redacted]'"),
        ("python m.py --token env:T --max-tokens 400", "python m.py --token env:T --max-tokens 400"),
        ("python m.py --token --verbose", "python m.py --token --verbose"),
    ],
)  # fmt: skip
def test_commands(monkeypatch: pytest.MonkeyPatch, command: str, shown: str) -> None:
    words = shlex.split(command)
    assert public_words(words) == shlex.split(shown)
    assert public_words(public_words(words)) == public_words(words)
    assert public_command(public_command(command)) == public_command(command)
    assert (public_command(command) == command) == (command == shown)
    monkeypatch.setenv("T", "abc")
    if "[redacted]" not in shown:
        assert resolved_words(words) == [word.replace("env:T", "abc") for word in words]


def test_a_command_is_named_by_what_is_no_secret() -> None:
    assert words_without_secrets(["python", "m.py", "--token", "abc"]) == ["python", "m.py"]
    assert words_without_secrets(["env", "TOKEN=abc", "m.py"]) == ["env", "m.py"]
    assert words_without_secrets(["python", "m.py", "--depth", "3"]) == ["python", "m.py", "--depth", "3"]
