"""A key in the environment, in a query and in user information is found nowhere, whatever a server makes of it."""

import base64
import html
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import pytest

from longmemeval.core.secrets import redaction
from tests.cli.conftest import Command
from tests.server import text_vector
from tests.support import clean_environment, json_lines, longmemeval, record, write_dataset

KEY = "plantedKEY/4711+QzX"
PASSWORD = "planted/PW+0815Yq"
QUERY = "plantedQuery-2342"
USER_INFORMATION = f"plant7:{quote(PASSWORD, safe='')}"
QUESTIONS = "--limit 2"


class Echo(ThreadingHTTPServer):
    """Repeats what it is sent, in every spelling, in replies and in errors."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.embedding_status = 200
        self.seen: list[str] = []
        self.label = ""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Echo)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        header = self.headers["Authorization"]
        server.seen.append(header)
        echo = _echo(header, self.path)
        status = server.embedding_status if self.path.endswith("/embeddings") else server.status
        if status != 200:
            reply: dict[str, Any] = {"error": {"message": f"Refused. {echo}", "type": "x", "code": None, "param": None}}
        elif self.path.endswith("/embeddings"):
            vectors = [text_vector(text, 8).tolist() for text in body["input"]]
            data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
            reply = {"data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": f"{server.label}{echo}"}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "x", "object": "chat.completion", "created": 0, "model": f"m {header}", "usage": usage}
            reply["choices"] = [choice | {"finish_reason": "stop"}]
        sent = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _echo(header: str, path: str) -> str:
    kind, _, code = header.partition(" ")
    plain = base64.b64decode(code).decode() if kind == "Basic" else code
    password = plain.partition(":")[2] or plain
    spelled = [header, path, plain, password, quote(password), quote(password, safe=""), quote_plus(plain)]
    nested = json.dumps({"headers": json.dumps({"Authorization": header, "password": password})})
    return " | ".join([*spelled, nested, f"http://{plain}@host/v1", f"?api_key={password}", html.escape(password)])


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(redaction, "_from_addresses", set())
    return tmp_path


def spellings(secret: str) -> set[str]:
    plain = {secret, unquote(secret), quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}
    code = {base64.b64encode(f"{before}{secret}".encode()).decode() for before in ("", "plant7:", ":", "a:")}
    # What is left of base64 when its ends are cut.
    return plain | {one.replace("/", "\\/") for one in plain} | {one[4:-4] for one in code}


SECRETS = {spelling for secret in (KEY, PASSWORD, QUERY, USER_INFORMATION) for spelling in spellings(secret)}


def found_in(text: str) -> set[str]:
    return {secret for secret in SECRETS if secret.lower() in text.lower()}


def holds_none(folder: Path, *texts: str) -> None:
    for text in texts:
        assert not found_in(text), text
    for path in folder.rglob("*"):
        if path.is_file():
            assert not found_in(path.read_bytes().decode("utf-8", "replace")), path
            assert not found_in(str(path))


PREPARE = f"prepare --dataset sample --memory semantic-recall --embedder openai:m {QUESTIONS}"
RUN = f"run --dataset sample --memory semantic-recall --model openai/m {QUESTIONS} --max-attempts 1"


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("user_information", ["", f"{USER_INFORMATION}@"], ids=["key", "user information"])
def test_nothing_a_server_repeats_is_kept_or_shown(
    echo: Echo, folder: Path, command: Command, user_information: str
) -> None:
    base = f"--api-base http://{user_information}{echo.host}/v1"
    shown: list[str] = []

    def give(line: str, status: int = 200, code: int = 0) -> str:
        echo.status, echo.embedding_status = (200, status) if line.startswith("prepare") else (status, 200)
        outcome = command(line)
        assert outcome.code == code, outcome
        shown.extend((outcome.stdout, outcome.stderr))
        return outcome.stdout + outcome.stderr

    give(f"{PREPARE} {base}", 401, 2)
    give(f"{PREPARE} {base}", 400, 1)
    give(f"{PREPARE} {base}")
    give(f"--debug {RUN} {base} --run-id refused", 401, 2)
    give(f"{RUN} {base} --run-id a", 400, 1)
    give(f"{RUN} {base} --run-id a")
    give(f"{RUN} {base} --run-id b --reading con-separate")
    give(f"evaluate a --judge openai/m --max-attempts 1 {base}", 400, 1)
    echo.label = "yes "
    give(f"evaluate a --judge openai/m {base}")
    give(f"evaluate b --judge openai/m {base}")
    for line in (
        *("compare a b", "compare a b --json", "verify a"),
        *("report a b --output report.html", "report a b --format latex --output table.tex"),
        *("export a --format official", "export a --format csv", "inspect smp_4ea7 --dataset sample"),
        "evaluate a --judge offline/lexical --json",
    ):
        give(line)
    # Bearer without user information, else Basic: what the server saw was never anything else.
    scheme = "Basic" if user_information else f"Bearer {KEY}"
    assert {header.startswith(scheme) for header in echo.seen} == {True}
    answers = json_lines(folder / "results" / "a" / "answers.jsonl")
    assert all("[redacted]" in answer["hypothesis"] for answer in answers if answer["status"] == "ok")
    assert all("repeated a secret" in answer["notes"][-1] for answer in answers if answer["status"] == "ok")
    assert any("[redacted]" in answer["error"] for answer in answers)
    holds_none(folder, *shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    [
        f"http://127.0.0.1:9/v1?api_key={QUERY}",
        f"http://plant7:{PASSWORD}@127.0.0.1:9/v1",
        f"http://{USER_INFORMATION}@127.0.0.1:9/v1?api_key={QUERY}#x",
    ],
)
def test_address_that_cannot_be_called_is_refused_before_the_first_call(
    folder: Path, command: Command, address: str
) -> None:
    command(f"prepare --dataset sample --memory last-k {QUESTIONS}")
    run = f"run --dataset sample --memory last-k --model openai/m {QUESTIONS} --run-id a"
    for line in (f"{PREPARE} --api-base '{address}'", f"--debug {run} --api-base '{address}'"):
        outcome = command(line)
        assert outcome.code == 2
        assert "query" in outcome.stderr or "Percent-encode" in outcome.stderr
        holds_none(folder, *outcome[1:])
    assert not (folder / "results" / "a").exists()
    # Addresses where none are expected are not repeated whole either.
    for line in (f"run --dataset '{address}' --memory last-k --model openai/m", f"verify '{address}'"):
        outcome = command(line)
        assert outcome.code == 2
        holds_none(folder, *outcome[1:])


@pytest.mark.slow
def test_user_information_in_the_environment_is_sent_and_kept_secret(
    echo: Echo, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://{USER_INFORMATION}@{echo.host}/v1")
    command(f"prepare --dataset sample --memory last-k {QUESTIONS}")
    outcome = command(f"run --dataset sample --memory last-k --model openai/m {QUESTIONS} --run-id a")
    assert outcome.code == 0
    assert {header.split()[0] for header in echo.seen} == {"Basic"}
    holds_none(folder, *outcome[1:])
    outcome = command(
        f"run --dataset sample --memory last-k --model groq/m {QUESTIONS} --run-id b --api-base {echo.host}"
    )
    assert outcome.code == 2


def test_reader_that_goes_away_sees_no_traceback(tmp_path: Path) -> None:
    patient = "from longmemeval.cli import main; main.SILENT_AT_MOST_S = 3600.0; main.main()"
    command = [sys.executable, "-c", patient, "datasets", "stats", "sample", "--json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_a_process_of_its_own_shows_no_secret(echo: Echo, tmp_path: Path) -> None:
    """Also what Python itself prints: here the traceback of an error that is shown on demand."""
    base = f"http://{USER_INFORMATION}@{echo.host}/v1"
    echo.embedding_status = 401
    line = ["--debug", *PREPARE.split(), "--api-base", base]
    done = longmemeval(*line, cwd=tmp_path, code=2, OPENAI_API_KEY=KEY)
    assert "Traceback" in done.stderr
    holds_none(tmp_path, done.stdout, done.stderr)


def test_a_password_that_is_a_word_takes_no_name_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is called like it, and so are its data, its preparation and a prompt."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://postgres@db.example/memories")
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    data = write_dataset(folder / "postgres.json", record("postgres-1", question_type="multi-session"))
    asked = ("--dataset", data.name, "--memory", "bm25")
    longmemeval("prepare", *asked, "--name", "postgres", cwd=folder)
    model = ("--model", "offline/extractive", "--prepared", "postgres")
    longmemeval("run", *asked, *model, "--run-id", "postgres-demo", cwd=folder)
    longmemeval("evaluate", "postgres-demo", "--judge", "offline/lexical", cwd=folder)
    longmemeval("verify", "postgres-demo", cwd=folder)
    manifest = json.loads((folder / "results/postgres-demo/run.json").read_text())
    assert manifest["run_id"] == "postgres-demo"
    assert (manifest["dataset"]["name"], manifest["dataset"]["path"]) == ("postgres", "postgres.json")
    assert (manifest["question_ids"], list(manifest["fixtures"])) == (["postgres-1"], ["postgres-1"])
    assert manifest["settings"]["preparation"] == "postgres"
    assert "--prepared postgres" in manifest["prepare"]
    longmemeval("run", "--like", "postgres-demo", "--strict", "--run-id", "again", cwd=folder)
    longmemeval("compare", "postgres-demo", cwd=folder)
