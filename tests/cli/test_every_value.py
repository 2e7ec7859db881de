"""One file with every kind of value goes through every verb, and its values arrive unchanged."""

import asyncio
import csv
import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

from longmemeval import Folders, Run, compare, load_dataset, run
from longmemeval.benchmarks.longmemeval.judge import LongMemEvalJudge
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import load_chat_model
from longmemeval.memory.external.serving.records import Session
from tests.cli.conftest import Command
from tests.every_value import ANSWERS, SESSIONS, TEXTS, every_value, write_every_value
from tests.made_once import made_once
from tests.server import ModelServer
from tests.view.client import visitor

pytestmark = pytest.mark.slow

FILE = "every.json"
RECORDS = {record["question_id"]: record for record in every_value()}
RIGHT = {
    name: answer if isinstance(answer, str) else json.dumps(answer, separators=(",", ":"))
    for name, answer in ANSWERS.items()
}
"""Right answers as tables and pages show them."""


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, made the current one, with the file, its fixtures and three graded runs."""

    def make(folder: Path) -> None:
        monkeypatch.chdir(folder)
        write_every_value(Path(FILE))
        for memory in ("hybrid", "bm25", "oracle"):
            run(FILE, memory, model="offline/extractive", name=memory).evaluate("offline/lexical")

    copy = tmp_path / "place"
    shutil.copytree(made_once(tmp_path_factory, "every value", make), copy)
    monkeypatch.chdir(copy)
    return copy


def test_the_data_are_read_as_written(place: Path) -> None:
    dataset = load_dataset(FILE).dataset
    for question in dataset.questions():
        record, gold = RECORDS[question.question_id], dataset.gold(question.question_id)
        assert (question.text, repr(gold.answer)) == (record["question"], repr(record["answer"]))
        assert list(gold.evidence_sessions) == record["answer_session_ids"]
    (haystack, *_) = dataset.haystacks()
    assert [session.session_id for session in haystack.sessions] == list(SESSIONS)
    told = {turn.content for session in haystack.sessions for turn in session.turns}
    assert told >= set(TEXTS.values())


def test_rows_have_the_values_of_the_data(place: Path, command: Command) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for form in ("jsonl", "parquet", "csv", "inspect-json", "inspect", "official"):
        assert command(f"export hybrid --format {form} --output {form}").code == 0
    lines = Path("jsonl/hybrid.jsonl").read_text().split("\n")[:-1]
    frame = Run.open("hybrid").evaluate("offline/lexical").to_pandas()
    tables: list[list[dict[str, Any]]] = [
        [json.loads(line) for line in lines],
        parquet.read_table("parquet/hybrid.parquet").to_pylist(),
        frame.to_dict("records"),
    ]
    for rows in tables:
        assert {row["question_id"]: row["gold"] for row in rows} == RIGHT
        assert [row["question"] for row in rows] == [record["question"] for record in RECORDS.values()]
    with Path("csv/hybrid.csv").open(encoding="utf-8-sig", newline="") as file:
        cells = [row["gold"].removeprefix("'") for row in csv.DictReader(file)]
    assert cells == [
        re.sub(r"[\0-\x08\x0b-\x1f\x7f-\x9f](?<!\r)", lambda m: f"\\x{ord(m[0]):02x}", text) for text in RIGHT.values()
    ]
    log = json.loads(Path("inspect-json/hybrid.json").read_text())
    assert {sample["id"]: sample["target"] for sample in log["samples"]} == RIGHT
    said = [json.loads(line) for line in Path("official/hybrid.jsonl").read_text().split("\n")[:-1]]
    assert [line["question_id"] for line in said] == list(RECORDS)


def test_rankings_and_imported_answers_keep_their_ids(place: Path, command: Command) -> None:
    assert command(f"retrieval -d {FILE} -m hybrid --run-id ranks").code == 0
    assert command("export ranks --format trec --output trec").code == 0
    ranked = [line.split(" ") for line in Path("trec/ranks.run").read_text().split("\n")[:-1]]
    assert {len(columns) for columns in ranked} == {6}
    assert len({columns[2] for columns in ranked}) == len(SESSIONS)
    assert len({columns[0] for columns in ranked}) == len(RECORDS)
    theirs = [{"question_id": name, "hypothesis": TEXTS["markup"] + name} for name in RECORDS]
    Path("theirs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in theirs))
    assert command(f"import theirs.jsonl -d {FILE} --run-id theirs").code == 0
    assert {name: answer.hypothesis for name, answer in Run.open("theirs").answers.items()} == {
        line["question_id"]: line["hypothesis"] for line in theirs
    }


def test_reports_have_the_values_of_the_data(place: Path, command: Command) -> None:
    for form in ("html", "md", "latex", "bibtex", "figures"):
        assert command(f"report hybrid bm25 oracle --format {form} --output report.{form}").code == 0
    page = Path("report.html").read_text()
    assert page.count("<script") == page.count("</script>") == 3
    listed, details = (
        json.loads(found)
        for found in re.findall(r'<script type="application/json" id="[\w-]+">(.*?)</script>', page, re.DOTALL)
    )
    assert [row["text"] for row in listed["rows"]] == [record["question"] for record in RECORDS.values()]
    assert [row["answer"] for row in details["questions"]] == list(RIGHT.values())


class Heard:
    """A memory that keeps what it is told, for the test and for itself."""

    all: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        self.kept: list[str] = []

    def add(self, session: Session) -> None:
        self.kept += [message.content for message in session.messages]
        self.all.update(self.kept)

    def search(self, query: str, *, date: object, limit: int) -> list[str]:
        return self.kept


def test_a_memory_of_a_user_is_told_the_texts(place: Path) -> None:
    Heard.all.clear()
    done = run(FILE, Heard, model="offline/extractive")
    assert Heard.all >= set(TEXTS.values())
    assert not Heard.all & set(SESSIONS) - set(TEXTS.values())
    assert {answer.status for answer in done.answers.values()} == {"ok"}


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.harmful: list[object] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.harmful += [(tag, name) for name, value in attrs if name.startswith("on") or value == "x"]


def _read(text: str) -> str:
    """A text without differences of white space; pages write a character that cannot be shown as ⟨U+0000⟩."""
    return " ".join(re.sub(r"⟨U\+([0-9A-F]{4,6})⟩", lambda match: chr(int(match[1], 16)), text).split())


def test_pages_show_the_values_of_the_data(place: Path) -> None:
    client = visitor(Folders())
    for name, record in RECORDS.items():
        answered = client.get("/question", params={"run": ["hybrid", "bm25"], "q": name})
        assert answered.status_code == 200, name
        seen = _Seen()
        seen.feed(answered.text)
        shown = _read("".join(seen.texts))
        assert not seen.harmful
        assert _read(record["question"]) in shown
        assert _read(RIGHT[name]) in shown
    runs = {"run": ["hybrid", "bm25"]}
    for path, more in {
        "/runs": {},
        "/compare": runs,
        "/questions": runs,
        "/data/questions": runs,
        "/data/search": runs | {"find": "bike"},
        "/labels": runs,
        "/explore": {"q": "zero", "run": "hybrid"},
    }.items():
        answered = client.get(path, params=more)
        assert answered.status_code == 200, (path, answered.text[-300:])
        if answered.headers["content-type"] == "application/json":
            continue
        seen = _Seen()
        seen.feed(answered.text)
        assert seen.harmful == [], path


def test_a_judge_is_asked_about_the_values_of_the_data(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    dataset = load_dataset(FILE).dataset
    with ModelServer(lambda body: "yes") as server:
        judge = LongMemEvalJudge(load_chat_model("openai/judge", ModelOptions(api_base=server.url)))
        for question in dataset.questions():
            asyncio.run(judge.judge(question, dataset.gold(question.question_id), TEXTS["templates"]))
        prompts = [request.body["messages"][0]["content"] for request in server.chat_requests]
    for record, prompt in zip(RECORDS.values(), prompts, strict=True):
        assert record["question"] in prompt
        assert str(record["answer"]) in prompt  # As the official script writes it.
        assert TEXTS["templates"] in prompt


@pytest.fixture
def key(place: Path) -> Path:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    path = place / "key.pem"
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def test_every_other_verb_takes_them(place: Path, key: Path, command: Command) -> None:
    rows = compare("hybrid", "bm25", "oracle").to_pandas().to_dict("records")
    assert [row["run"] for row in rows] == ["hybrid", "bm25", "oracle"]
    grid = {"name": "grid", "dataset": FILE, "memories": ["bm25", "last-k"], "models": ["offline/extractive"]}
    Path("sweep.yaml").write_text(json.dumps(grid | {"judges": ["offline/lexical"]}))
    for line in (
        "export hybrid --format official --output official",
        "compare hybrid bm25 --questions",
        "compare hybrid bm25 oracle --json",
        "runs --json",
        "status --json",
        f"datasets stats {FILE} --json",
        f"datasets verify {FILE} --json",
        "verify hybrid --json",
        "sign hybrid --key key.pem",
        f"board build results -o board --dataset {FILE} --json",
        f"prepare -d {FILE} -m engram-lean --json",
        f"run -d {FILE} -m engram-lean --model offline/extractive --run-id lean --json",
        "evaluate lean --judge offline/lexical --json",
        f"judge check offline/lexical -d {FILE} --json",
        "probe -m bm25 --lives 1 --sessions 10 --json",
        "claims list --json",
        "claims table --json",
        f"run -d {FILE} -m bm25 --model offline/extractive --run-id half --shard 1/2",
        f"run -d {FILE} -m bm25 --model offline/extractive --run-id half --shard 2/2",
        "merge 'half*' --run-id whole --json",
        "verify whole --json",
        "evaluate --hypotheses official/hybrid.jsonl -d every.json --judge offline/lexical --json",
        "sweep sweep.yaml --json",
    ):
        done = command(line)
        assert done.code == 0, (line, done.stderr)
    for name in RECORDS:
        done = command(shlex.join(["inspect", "-d", FILE, "-m", "hybrid", "--gold", "--json", "--", name]))
        assert done.code == 0, (name, done.stderr)
        shown = json.loads(done.stdout)
        assert shown["answers"][0]["answer"] == RIGHT[name]
        assert [session["session_id"] for session in shown["sessions"]] == list(SESSIONS)
