"""A memory from outside through every verb: the same figures over every transport, no labels out, faults kept apart."""

import asyncio
import hashlib
import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from longmemeval import (
    Memory,
    PrepareOptions,
    RetrievalOptions,
    evaluate,
    load_dataset,
    prepare,
    retrieve,
    run,
)
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.llm.model_calls import CallFile, Stage
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.external.proxy.server import ProxiedScope
from longmemeval.memory.external.transports.service import close_services
from longmemeval.settings import Folders
from longmemeval.storage.fixture import read_meta
from tests.memory.external.transported import EXAMPLE, NODE, SERVE, http_served
from tests.pipeline.helpers import start
from tests.support import json_lines, longmemeval, next_steps, record, write_dataset

RUN = ("run", "--model", "offline/extractive")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    return tmp_path


def retrieval(folder: Path, data: str, *memories: str, level: str = "session", more: tuple[str, ...] = ()) -> list[Any]:
    named = [word for memory in memories for word in ("--memory", memory)]
    done = longmemeval("retrieval", "--dataset", data, *named, "--granularity", level, "--json", *more, cwd=folder)
    results: list[Any] = json.loads(done.stdout)["results"]
    return results


@pytest.mark.thorough
@pytest.mark.slow
def test_every_carrier_gives_the_same_rankings_and_scores(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "mymem", raising=False)
    folders = Folders(data_dir=folder / "data", prepared_dir=folder / "prepared-data", results_dir=folder / "results")
    data = load_dataset("sample", folders.data_dir).first(6)
    found = []
    with http_served("mymem:MyMemory", folder) as address:
        memories = ("mymem:MyMemory", f"process:{SERVE} mymem:MyMemory", f"process:node {NODE}", address)
        prepare(data, *memories, folders=folders, options=PrepareOptions(jobs=1))
        for number, memory in enumerate(memories):
            made = run(data, memory, "offline/extractive", folders=folders, name=f"run-{number}")
            scores = evaluate(made, "offline/lexical")
            ranked = RetrievalOptions(granularity="turn", jobs=1, run_id=f"ranked-{number}")
            (measured,) = retrieve(data, memory, folders=folders, options=ranked).runs
            answers = json_lines(folders.results_dir / f"run-{number}" / "answers.jsonl")
            told = ("question_id", "status", "hypothesis", "recall_ids", "top_score", "prompt_sha256")
            answered = sorted(str([answer.get(key) for key in told]) for answer in answers)
            rankings = (folders.results_dir / f"ranked-{number}" / "rankings.jsonl").read_bytes()
            (result,) = measured.results
            found.append((answered, scores.metrics.overall, rankings, result.measures, result.by_type))
    assert found[0][0][0].count("'ok'") == 1
    assert found[1:] == found[:1] * 3


@pytest.mark.slow
def test_a_service_is_shown_by_its_own_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with http_served("mymem:MyMemory", folder) as address:
        host = address.removeprefix("http://")
        assert Memory(address).name == "MyMemory"
        longmemeval("prepare", "-d", "sample", "--limit", "1", "-m", address, cwd=folder)
        longmemeval("run", "-d", "sample", "--limit", "1", "-m", address, "--model", "offline/extractive", cwd=folder)
        (made,) = (folder / "results").glob("*/run.json")
        assert made.parent.name.startswith("sample_MyMemory_")
        again = longmemeval(
            *RUN, "-d", "sample", "--limit", "1", "-m", address, "--resume", made.parent.name, cwd=folder
        )
        assert "is already complete" in again.stdout
    longmemeval("evaluate", made.parent.name, "--judge", "offline/lexical", cwd=folder)
    (listed,) = json.loads(longmemeval("runs", "--json", cwd=folder).stdout)["runs"]
    assert (listed["memory"], listed["run"]) == ("MyMemory", made.parent.name)
    latex = longmemeval("report", made.parent.name, "--format", "latex", "-o", "-", cwd=folder).stdout
    shown = [line for line in latex.splitlines() if not line.startswith("%")]
    assert any("MyMemory" in line for line in shown)
    assert not any(host in line for line in shown)
    # Not there any more: the run is still the same one.
    away = longmemeval(*RUN, "-d", "sample", "--limit", "1", "-m", address, "--resume", made.parent.name, cwd=folder)
    assert "is already complete" in away.stdout
    assert Memory("http://127.0.0.1:9").name == "127.0.0.1:9"


PLANTED = record(
    "gpt4_planted_abs",
    question_type="single-session-preference",
    haystack_session_ids=["answer_of_all", "noise_1", "answer_of_all_2"],
    answer_session_ids=["answer_of_all", "answer_of_all_2"],
)


def test_no_label_reaches_a_service_or_its_files(folder: Path) -> None:
    """Every byte that the child is sent is written down by a program between it and us."""
    (folder / "tee.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
        "with open('sent.log', 'ab') as log:\n"
        "    for line in sys.stdin.buffer:\n"
        "        log.write(line); log.flush(); child.stdin.write(line); child.stdin.flush()\n"
        "child.stdin.close(); child.wait()\n"
    )
    write_dataset(folder / "d.json", PLANTED)
    memory = f"process:{sys.executable} tee.py {SERVE} mymem:MyMemory"
    longmemeval("prepare", "--dataset", "d.json", "--memory", memory, cwd=folder)
    longmemeval(*RUN, "--dataset", "d.json", "--memory", memory, "--run-id", "r", cwd=folder)
    sent = (folder / "sent.log").read_bytes()
    assert b"I painted my bicycle green" in sent
    assert b'"method":"search"' in sent
    (state,) = (folder / "prepared-data").glob("d/default/*/*/state")
    kept = b"".join(path.read_bytes() + path.name.encode() for path in state.rglob("*") if path.is_file())
    for label in (b"answer", b"_abs", b"gpt4", b"planted", b"noise", b"preference", b"evidence", b"has_answer"):
        assert label not in sent.lower()
        assert label not in kept.lower()
    (answer,) = json_lines(folder / "results" / "r" / "answers.jsonl")
    assert answer["recall_ids"] == ["answer_of_all_2:0"] or "noise_1:0" in answer["recall_ids"]


FAULTY = '''
import os, time
from mymem import MyMemory

class Faulty(MyMemory):
    """Fails in a way of its own."""

    def add(self, session):
        if "bicycle" in str(session):
            FAULT
        super().add(session)
'''


def two_haystacks(folder: Path) -> None:
    other = record("q2", haystack_sessions=[[{"role": "user", "content": "A car."}]] * 3, question="Which car?")
    write_dataset(folder / "d.json", record("q1"), other)


@pytest.mark.variants
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("os._exit(7)", "ended by itself with exit code 7"),
        (
            "[os.write(int(one), b'no json' + bytes([10])) for one in os.listdir('/proc/self/fd') if int(one) > 2"
            " and os.path.exists(f'/proc/self/fd/{one}') and 'pipe' in os.readlink(f'/proc/self/fd/{one}')]",
            "wrote a line that is not a message of the protocol",
        ),
        ("raise ValueError('a bad day')", ""),
    ],
)
def test_a_haystack_that_fails_keeps_its_questions_and_no_other(fault: str, told: str, folder: Path) -> None:
    two_haystacks(folder)
    (folder / "faulty.py").write_text(FAULTY.replace("FAULT", fault))
    memory = f"process:{SERVE} faulty:Faulty"
    code = 1 if told else 0
    words = ("--dataset", "d.json", "--memory", memory)
    done = longmemeval("prepare", *words, "--memory", "bm25", cwd=folder, code=code)
    shown = " ".join(done.stderr.split())
    assert told in shown
    if not told:
        lost = "q1: 1 of 3 batches failed: faulty.py, line 10: ValueError: a bad day"
        assert f"{lost}. The next prepare tries again" in shown
        return
    assert "1 of 2 haystacks failed; their questions count as unanswered." in shown
    done = longmemeval(*RUN, *words, "--run-id", "r", cwd=folder, code=1)
    assert "1 of 2 questions failed: " in done.stderr
    answers = {one["question_id"]: one for one in json_lines(folder / "results" / "r" / "answers.jsonl")}
    assert (answers["q1"]["status"], answers["q2"]["status"]) == ("error", "ok")
    assert told in answers["q1"]["error"]
    scores = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder, code=1)
    assert "1 of 2 histories could not be ingested; their questions count" in " ".join(scores.stdout.split())
    found, others = retrieval(folder, "d.json", memory, "bm25")
    assert found["denominator"].startswith("2 questions")
    assert others["measures"]["recall_any@5"] == 1.0
    # The next prepare tries again, and only what failed.
    (folder / "faulty.py").write_text(FAULTY.replace("FAULT", "pass"))
    again = longmemeval("prepare", *words, cwd=folder)
    assert "Prepared 1 haystack (1 already prepared)" in again.stdout


SLOW = '''
import pathlib, time
from mymem import MyMemory
import longmemeval.memory.external.serving.scope as scope
scope.CHECKPOINT_S = 0.0

class Slow(MyMemory):
    """Slow, and saved after every session."""

    def add(self, session):
        with open("added.log", "a") as log:
            print(session.id, file=log)
        super().add(session)
        while pathlib.Path("wait").exists() and len(self.stored) >= 4:
            time.sleep(0.01)
'''


def test_a_killed_prepare_goes_on_within_a_haystack(folder: Path) -> None:
    write_dataset(folder / "d.json", record("q1"))
    (folder / "slow.py").write_text(SLOW)
    (folder / "wait").touch()
    arguments = ["prepare", "--dataset", "d.json", "--memory", "slow:Slow", "--jobs", "1"]
    command = start(*arguments, cwd=folder)
    deadline = time.monotonic() + 60
    while not (folder / "added.log").exists() or len((folder / "added.log").read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    command.send_signal(signal.SIGKILL, group=True)
    command.communicate()
    assert command.returncode == -signal.SIGKILL
    (folder / "wait").unlink()
    longmemeval(*arguments, cwd=folder)
    added = (folder / "added.log").read_text().split()
    # The second was under way; the first is not added again.
    assert [added.count(one) for one in dict.fromkeys(added)] == [1, 2, 1]
    again = longmemeval(*arguments, cwd=folder)
    assert "Already prepared" in again.stdout
    assert (folder / "added.log").read_text().split() == added


def test_reading_changes_nothing_and_the_manifest_tells_of_the_service(folder: Path) -> None:
    write_dataset(folder / "d.json", record("q1"))
    (folder / "writes.py").write_text(
        "from mymem import MyMemory\n"
        "class Writes(MyMemory):\n"
        "    capabilities = {'signals': ['words'], 'telemetry': 'off'}\n"
        "    packages = ['msgspec', 'no-such-package']\n"
        "    def load(self, folder):\n"
        "        super().load(folder)\n"
        "        (folder / 'lock').write_text('x'); (folder / 'memory.json').write_text('[]')\n"
    )
    words = ("--dataset", "d.json", "--memory", "writes:Writes", "--set", "shortest=4")
    longmemeval("prepare", *words, cwd=folder)
    for name in ("a", "b"):
        longmemeval(*RUN, *words, "--run-id", name, cwd=folder)
    answers = [json_lines(folder / f"results/{one}/answers.jsonl")[0] for one in ("a", "b")]
    assert answers[0]["recall_ids"] == answers[1]["recall_ids"] != []
    assert "checks passed" in longmemeval("verify", "d/default", cwd=folder).stdout
    (name,) = (path.name for path in (folder / "prepared-data/d/default/q1").iterdir() if path.name.startswith("Wri"))
    settings = json.loads((folder / "results/a/run.json").read_text())["settings"]
    assert settings["not_reproducible"] == [name]
    told = settings["parts"][name]
    assert (told["service"], told["capabilities"][0]["signals"]) == (["Writes"], "words")
    assert (told["batches"], told["failed_batches"]) == (3, 0)
    assert set(told["packages"][0]) == {"python", "msgspec", "no-such-package"}
    assert settings["memory"]["parameters"] == {"limit": 10, "budget": None, "shortest": 4}
    meta = read_meta(folder / "prepared-data/d/default/q1")
    assert meta is not None
    assert not meta.parts[name].reproducible
    # Other settings are another memory: prepared beside it, asked for by name.
    refused = longmemeval(*RUN, "--dataset", "d.json", "--memory", "writes:Writes", "--run-id", "c", cwd=folder, code=2)
    assert "longmemeval prepare --dataset d.json --memory writes:Writes" in " ".join(refused.stderr.split())


LEVELS = '''
from mymem import MyMemory

class Sessions(MyMemory):
    """Says from which sessions."""
    capabilities = {"provenance": "session"}
    def search(self, query, *, date, limit):
        hits = super().search(query, date=date, limit=limit)
        return [{"text": hit["text"], "session_ids": hit["session_ids"]} for hit in hits]
    def add(self, session):
        before = len(self.stored)
        super().add(session)
        for hit in self.stored[before:]:
            hit["session_ids"] = [session.id]

class Nothing(MyMemory):
    """Says nothing."""
    capabilities = {"provenance": "none"}
    def search(self, query, *, date, limit):
        return [hit["text"] for hit in super().search(query, date=date, limit=limit)]
'''


def test_provenance_is_scored_at_its_level_and_never_guessed(folder: Path) -> None:
    write_dataset(folder / "d.json", record("q1"))
    (folder / "levels.py").write_text(LEVELS)
    memories = ("mymem:MyMemory", "levels:Sessions", "levels:Nothing")
    named = [word for memory in memories for word in ("--memory", memory)]
    longmemeval("prepare", "--dataset", "d.json", *named, cwd=folder)
    by_session, by_turn = (retrieval(folder, "d.json", *memories, level=level) for level in ("session", "turn"))
    assert [one["measures"]["recall_any@5"] for one in by_session] == [1.0, 1.0, None]
    assert [one["measures"]["recall_any@5"] for one in by_turn] == [1.0, None, None]
    for memory in memories:
        name = memory.rpartition(":")[2]
        longmemeval(*RUN, "--dataset", "d.json", "--memory", memory, "--run-id", name, cwd=folder)
        longmemeval("evaluate", name, "--judge", "offline/lexical", cwd=folder)
    compared = longmemeval("compare", "MyMemory", "Sessions", "Nothing", "--tables", "--notes", cwd=folder).stdout
    rows = {line.split()[0]: line for line in reversed(compared.splitlines()) if line.strip()}
    assert "100.0%" in rows["MyMemory"]
    assert "100.0% (s)" in rows["Sessions"]
    assert "\u2013" in rows["Nothing"]
    assert "(s): evidence recall by session" in compared
    prompt = json_lines(folder / "results/Nothing/prompts.jsonl")[0]["messages"][-1]["content"]
    assert "## Date unknown" in prompt


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("process:", "This is not a command (process:)"),
        ("http://user:pass@127.0.0.1:1", "The address of a memory contains a user name, a password or a query"),
    ],
)
def test_addresses_that_are_none_are_refused(memory: str, told: str, folder: Path) -> None:
    write_dataset(folder / "d.json", record("q1"))
    refused = longmemeval("prepare", "--dataset", "d.json", "--memory", memory, cwd=folder, code=2)
    assert told in " ".join(refused.stderr.split())


def test_a_run_whose_childs_code_changed_is_not_continued(folder: Path) -> None:
    write_dataset(folder / "d.json", record("q1"))
    (folder / "serves.py").write_text(
        "import asyncio\nfrom longmemeval.memory.external.serve import serve_lines, server_of\n"
        "asyncio.run(serve_lines(server_of('mymem:MyMemory')))\n"
    )
    words = ("--dataset", "d.json", "--memory", f"process:{sys.executable} serves.py")
    longmemeval("prepare", *words, cwd=folder)
    longmemeval(*RUN, *words, "--run-id", "r", cwd=folder)
    source = json.loads((folder / "results/r/run.json").read_text())["settings"]["memory"]["source"]
    assert len(source["source_sha256"]) == 64
    with (folder / "serves.py").open("a") as file:
        file.write("# changed\n")
    refused = longmemeval(*RUN, *words, "--run-id", "r", cwd=folder, code=2)
    assert "source_sha256" in refused.stderr


def test_parts_made_by_other_code_of_the_class_are_neither_measured_nor_passed_over(folder: Path) -> None:
    """The class is edited once after `prepare`, and once more after the run."""
    write_dataset(folder / "d.json", record("q1"))
    asked = ("--dataset", "d.json", "--memory", "mymem:MyMemory")
    longmemeval("prepare", *asked, cwd=folder)
    assert "all" in longmemeval("verify", "d", cwd=folder).stdout
    with (folder / "mymem.py").open("a") as file:
        file.write("# edited\n")
    told = "The code of 'mymem:MyMemory' has changed since it was prepared (source_sha256: was "
    ranked = longmemeval("retrieval", "--granularity", "session", *asked, cwd=folder, code=2)
    refused = longmemeval(*RUN, "--run-id", "r", *asked, cwd=folder, code=2)
    assert all(told in " ".join(done.stderr.split()) for done in (ranked, refused))
    assert told in longmemeval("inspect", "q1", *asked, cwd=folder).stdout
    assert not (folder / "results" / "r").exists()
    # The part of the earlier code is read by nothing but runs of it, and is as it was.
    assert "checks passed" in longmemeval("verify", "d", cwd=folder).stdout
    # The remedy works as it is printed.
    remedy = " ".join(refused.stderr.split()).split("`longmemeval ")[1].split("`")[0]
    assert "--force" not in remedy
    assert told in " ".join(longmemeval(*shlex.split(remedy), cwd=folder).stderr.split())
    assert len(list((folder / "prepared-data" / "d" / "default" / "q1").glob("MyMemory-*"))) == 2
    longmemeval(*RUN, "--run-id", "r", *asked, cwd=folder)
    whole = longmemeval("verify", "r", "d", cwd=folder)
    assert whole.stdout.count("checks passed") == 2
    assert "source_sha256" not in whole.stderr
    # An edit after the run: what the run measured stands, and it is said that this is not the code here.
    with (folder / "mymem.py").open("a") as file:
        file.write("raise SystemExit('not to be run by verify')\n")
    since = longmemeval("verify", "r", cwd=folder)
    assert "checks passed" in since.stdout
    assert "The code of 'mymem:MyMemory' has changed since the run (source_sha256: was" in " ".join(
        since.stderr.split()
    )


def test_a_run_that_read_a_part_of_other_code_does_not_hold(folder: Path) -> None:
    """As an earlier version made such runs: the manifest names the new code, the part is of the old."""
    write_dataset(folder / "d.json", record("q1"))
    asked = ("--dataset", "d.json", "--memory", "mymem:MyMemory")
    longmemeval("prepare", *asked, cwd=folder)
    longmemeval(*RUN, "--run-id", "r", *asked, cwd=folder)
    with (folder / "mymem.py").open("a") as file:
        file.write("# edited\n")
    path = folder / "results/r/run.json"
    manifest = json.loads(path.read_text())
    manifest["settings"]["memory"]["source"]["source_sha256"] = source_of(folder / "mymem.py")
    path.write_text(json.dumps(manifest))
    refused = " ".join(longmemeval("verify", "r", cwd=folder, code=3).stderr.split())
    assert "which the run read, was made by other code of the memory than the run names (source_sha256: was" in refused


def source_of(file: Path) -> str:
    line = f"{file.name}:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"
    return hashlib.sha256(line.encode()).hexdigest()


@pytest.mark.thorough
@pytest.mark.parametrize("broken", ["all", "one"])
def test_prepare_that_prepared_nothing_is_no_success(broken: str, folder: Path) -> None:
    two_haystacks(folder)
    wanted = "True" if broken == "all" else "'bicycle' in str(session)"
    (folder / "faulty.py").write_text(
        "import os\nfrom mymem import MyMemory\n\n\nclass Faulty(MyMemory):\n    def add(self, session):\n"
        f"        if {wanted}:\n            os._exit(7)\n        super().add(session)\n"
    )
    memory = f"process:{SERVE} faulty:Faulty"
    done = longmemeval("prepare", "--dataset", "d.json", "--memory", memory, cwd=folder, code=1)
    if broken == "all":
        assert "Prepared none of 2 haystacks in " in done.stdout
        (check,) = next_steps(done.stdout)
        assert check[:2] == ["memory", "check"]
        assert "exit code 7" in longmemeval(*check, cwd=folder, code=3).stdout
    else:
        assert "Prepared 1 of 2 haystacks in " in done.stdout
    assert done.stderr.count("Failed: q") == (2 if broken == "all" else 1)
    assert "rerun the same command" in done.stderr
    told = json.loads(
        longmemeval("prepare", "--dataset", "d.json", "--memory", memory, "--json", cwd=folder, code=1).stdout
    )
    assert told["failed_haystacks"] == (2 if broken == "all" else 1)


STARTS_SLOWLY = """
import time
from mymem import MyMemory
time.sleep(4)

class StartsSlowly(MyMemory):
    \"\"\"Begun with every process, loaded with every history, and then quick.\"\"\"

    def __init__(self, chat_base_url, embedding_base_url):
        super().__init__()

    def load(self, folder):
        time.sleep(4)
        super().load(folder)
"""


@pytest.mark.slow
def test_what_has_to_start_first_is_no_part_of_a_search(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory's process, the harness's own way to models, the embedder, and the history."""
    two_haystacks(folder)
    (folder / "slow.py").write_text(STARTS_SLOWLY)
    monkeypatch.chdir(folder)
    folders = Folders(data_dir=folder / "data", prepared_dir=folder / "prepared-data", results_dir=folder / "results")
    dataset, memory = load_dataset("d.json", folders.data_dir), f"process:{SERVE} slow:StartsSlowly"
    prepare(dataset, memory, folders=folders, options=PrepareOptions(jobs=1))

    async def get_ready(self: ProxiedScope) -> None:
        await asyncio.sleep(4)

    monkeypatch.setattr(ProxiedScope, "get_ready", get_ready)
    # As if the next process had to begin everything anew.
    close_services()
    run(dataset, memory, "offline/extractive", folders=folders, name="r")
    took = [answer["recall_ms"] for answer in json_lines(folders.results_dir / "r" / "answers.jsonl")]
    assert len(took) == 2
    assert max(took) < 3500


def test_a_local_embedder_is_loaded_before_the_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[list[str]] = []
    embed = HashingEmbedder.embed

    def spied(self: HashingEmbedder, texts: list[str]) -> object:
        embedded.append(list(texts))
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed", spied)
    stages: tuple[tuple[Stage, int], ...] = (("prepare", 0), ("search", 1), ("search", 0))
    for stage, loads in stages:
        scope = ProxiedScope("s", stage, ModelAccess(embedder="hashing:64"), CallFile(None))
        asyncio.run(scope.get_ready())
        assert len(embedded) == loads
        embedded.clear()


MOVES = """
import os, tempfile
from mymem import MyMemory
os.chdir(tempfile.mkdtemp())

class Moves(MyMemory):
    def __init__(self, shortest=0):
        super().__init__(shortest)
        os.chdir(tempfile.mkdtemp())

    def add(self, session):
        os.chdir("/")
        super().add(session)

    def search(self, query, *, date, limit):
        os.chdir(tempfile.mkdtemp())
        return super().search(query, date=date, limit=limit)
"""


@pytest.mark.variants
@pytest.mark.parametrize("workers", [(), ("--jobs", "2"), ("--jobs", "2", "--executor", "threads")])
def test_a_class_that_changes_the_folder_moves_nothing_of_ours(folder: Path, workers: tuple[str, ...]) -> None:
    two_haystacks(folder)
    (folder / "moves.py").write_text(MOVES)
    words = ("--dataset", "d.json", "--memory", "moves:Moves")
    done = longmemeval("prepare", *words, *workers, cwd=folder)
    assert ", in prepared-data/d/default" in done.stdout
    done = longmemeval(*RUN, *words, "--run-id", "r", cwd=folder)
    assert str(folder) not in done.stdout
    assert json.loads((folder / "results/r/run.json").read_text())["dataset"]["path"] == "d.json"
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder)
    assert retrieval(folder, "d.json", "moves:Moves", more=workers)
    assert longmemeval("verify", "r", cwd=folder).stdout
    assert sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name != "__pycache__") == [
        "prepared-data",
        "results",
    ]
