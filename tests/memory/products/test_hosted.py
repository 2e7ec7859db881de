"""The hosted products through their own clients, in their own environments, against stubs of their published APIs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.memory.products.hosted.honcho import HonchoStub
from tests.memory.products.hosted.mem0_platform import Mem0Stub
from tests.memory.products.hosted.stub import HostedStub
from tests.memory.products.hosted.supermemory import SupermemoryStub
from tests.memory.products.hosted.zep import ZepStub
from tests.support import json_lines, longmemeval, record, write_dataset

KEY = "sk-hosted-4d8f1c0e7a"


class Product(NamedTuple):
    """One product and what its adapter can do."""

    stub: Callable[[str], HostedStub]
    variable: str
    level: str = "session"
    missing: tuple[str, ...] = ("message ids",)
    """What `memory check` finds missing; nothing may be wrong."""


PRODUCTS = {
    "zep": Product(ZepStub, "ZEP_API_KEY", "turn", ()),
    "supermemory": Product(SupermemoryStub, "SUPERMEMORY_API_KEY"),
    "mem0-platform": Product(Mem0Stub, "MEM0_API_KEY"),
    "honcho": Product(HonchoStub, "HONCHO_API_KEY", missing=("message ids", "order")),
}
Installed = Callable[[str], Path]


class Case:
    """A product, installed, with its stub and a folder."""

    def __init__(self, name: str, folder: Path, stub: HostedStub) -> None:
        self.name, self.folder, self.stub, self.product = name, folder, stub, PRODUCTS[name]
        self.words = ("--memory", name, "--set", f"base_url={stub.address}")

    def command(self, *words: str, code: int = 0) -> str:
        """What a command prints."""
        done = longmemeval(*words, cwd=self.folder, code=code, **{self.product.variable: KEY})
        return " ".join((done.stdout + done.stderr).split())


LARGE = ("mem0-platform",)
"""Those whose clients bring much along."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.products] * (name in LARGE)) for name in PRODUCTS])
def case(request: pytest.FixtureRequest, with_product: Installed) -> Iterator["Case"]:
    name = request.param
    with PRODUCTS[name].stub(KEY) as stub:
        yield Case(name, with_product(name), stub)


@pytest.mark.thorough
def test_a_check_finds_nothing_wrong_and_leaves_nothing(case: Case) -> None:
    shown = case.command("memory", "check", case.name, *case.words[2:], "--json")
    found = {one["what"]: one for one in json.loads(shown)}
    assert {what: one["state"] for what, one in found.items() if one["state"] != "works"} == dict.fromkeys(
        case.product.missing, "missing"
    )
    assert found["restart"]["told"] == "kept in its service: prepare once, run often"
    assert found["reset"]["told"] == "nothing is left"
    assert case.stub.problems == []
    assert case.stub.kept() == []
    assert case.stub.polled >= case.stub.polls
    assert KEY not in shown


PLANTED = record("gpt4_planted_abs", haystack_session_ids=["noise_1", "answer_of_all", "noise_2"])
PLANTED["answer_session_ids"] = ["answer_of_all"]
OTHER = record(
    "q2", haystack_sessions=[[{"role": "user", "content": "I bought a red car."}]] * 3, question="Which car?"
)


@pytest.mark.variants
def test_it_is_prepared_once_and_scored_by_what_it_tells(case: Case) -> None:
    """A session that the service cannot read is a failed batch; the next prepare adds it, and only it."""
    write_dataset(case.folder / "d.json", PLANTED, OTHER)
    data = ("--dataset", "d.json")
    case.stub.fails_on = "rivers"
    shown = case.command("prepare", *data, *case.words)
    assert "Note: gpt4_planted_abs: 1 of 3 batches failed: " in shown
    assert "The next prepare tries again" in shown
    assert case.stub.polled >= case.stub.polls
    case.stub.fails_on = "\0"
    sent = len(case.stub.requests)
    assert "failed" not in case.command("prepare", *data, *case.words)
    again = " ".join(str(request.body) for request in case.stub.requests[sent:] if request.method == "POST")
    assert "rivers" in again
    assert "bicycle" not in again
    sent = len(case.stub.requests)
    assert "Already prepared" in case.command("prepare", *data, *case.words)
    assert len(case.stub.requests) == sent
    histories = case.stub.kept()
    assert len(histories) == 2

    run = ("run", *data, *case.words, "--model", "offline/extractive", "--run-id", "r")
    case.command(*run)
    answers = {one["question_id"]: one for one in json_lines(case.folder / "results/r/answers.jsonl")}
    assert answers["gpt4_planted_abs"]["status"] == "ok"
    prompts = (case.folder / "results/r/prompts.jsonl").read_text()
    assert "I painted my bicycle green today" in prompts
    assert "2023/05/21" in prompts or "2023-05-21" in prompts
    assert "2031" not in prompts  # When the service stored it.
    scores = case.command("evaluate", "r", "--judge", "offline/lexical")
    assert "Tested against a stub of its published API, not run against the real service." in scores
    assert "batches failed" not in scores
    counted = json.loads((case.folder / "results/r/run.json").read_text())["settings"]["parts"]
    assert [(part["batches"], part["failed_batches"]) for part in counted.values()] == [(6, 0)]
    for level, known in (("session", True), ("turn", case.product.level == "turn")):
        ranked = case.command("retrieval", *data, *case.words, "--granularity", level, "--json")
        document = json.loads(ranked[: ranked.rindex("}") + 1])
        assert document["results"][0]["measures"]["recall_any@5"] == (1.0 if known else None)
    assert case.stub.problems == []
    assert case.stub.kept() == histories
    sent_text = " ".join(str(request[:4]) for request in case.stub.requests).lower()
    for label in ("answer_of", "_abs", "gpt4", "planted", "noise", "has_answer", "single-session"):
        assert label not in sent_text
    written = [path.read_bytes() for path in case.folder.rglob("*") if path.is_file() and "installed" not in str(path)]
    assert not any(KEY.encode() in data for data in written)


def test_a_wrong_key_is_told_and_hidden(case: Case) -> None:
    case.stub.authorization = "Bearer another"
    shown = case.command("memory", "check", case.name, *case.words[2:], code=3)
    assert "NO" in shown
    assert KEY not in shown


def test_a_missing_key_is_told(case: Case) -> None:
    done = longmemeval("memory", "check", case.name, *case.words[2:], cwd=case.folder, code=3)
    assert "key" in done.stdout.lower()


def test_lists_say_what_was_not_run(tmp_path: Path) -> None:
    for words in (("memory", "install"), ("plugins",)):
        shown = longmemeval(*words, cwd=tmp_path, COLUMNS="400").stdout
        lines = [line for line in shown.splitlines() if "not run against the real service" in line]
        assert {name for name in PRODUCTS if any(f" {name} " in line for line in lines)} == PRODUCTS.keys()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    [
        "zep",
        "supermemory",
        "honcho",
        pytest.param("mem0-platform", marks=pytest.mark.products),
    ],
    indirect=True,
)
def test_a_second_preparation_leaves_what_the_first_one_keeps_there(case: Case) -> None:
    """Both are at one service, with the same histories: each has names of its own."""
    write_dataset(case.folder / "d.json", PLANTED)
    data = ("--dataset", "d.json")
    case.command("prepare", *data, *case.words)
    first = set(case.stub.kept())
    case.command("prepare", *data, *case.words, "--name", "second")
    assert first < set(case.stub.kept())
    case.command("prepare", *data, *case.words, "--prepared-dir", "elsewhere")
    assert len(case.stub.kept()) == 3 * len(first)
    case.command("run", *data, *case.words, "--model", "offline/extractive", "--run-id", "r")
    assert "I painted my bicycle green today" in (case.folder / "results/r/prompts.jsonl").read_text()
    # A preparation may be moved: what was ingested into it keeps its name.
    (case.folder / "elsewhere").rename(case.folder / "moved")
    moved = ("--prepared-dir", "moved", "--run-id", "moved")
    case.command("run", *data, *case.words, "--model", "offline/extractive", *moved)
    assert "I painted my bicycle green today" in (case.folder / "results/moved/prompts.jsonl").read_text()
