"""A memory that fails in any way is told of as what it is, and changes no byte of another system's result."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.memory.external.transported import EXAMPLE, SERVE
from tests.support import json_lines, longmemeval, record, tree, write_dataset

CODE = '''
import os, time
from mymem import MyMemory

class Faulty(MyMemory):
    """Fails in a way of its own."""

    def add(self, session):
        if "bicycle" in str(session):
            ADD
        super().add(session)

    def search(self, query, *, date, limit):
        hits = super().search(query, date=date, limit=limit)
        SEARCH
        return hits
'''


class Fault(NamedTuple):
    """What goes wrong, and where it is told."""

    add: str = "pass"
    search: str = "pass"
    prepare: str = ""
    """What `prepare` prints; it ends with exit code 1 where no question can be answered then."""
    answers: tuple[str, ...] = ("ok", "ok")
    scores: str = ""
    """What stands under the table."""
    timeouts: str = ""


FAULTS = {
    "drops dates": Fault(
        search="hits = [{name: hit[name] for name in ('text', 'message_ids', 'score')} for hit in hits]",
        scores="faulty: 1 answer uses undated items",
    ),
    "loses a batch": Fault(
        add="raise OSError('the queue is full')",
        prepare="Note: q1: 1 of 3 batches failed: faulty.py, line 10: OSError: the queue is full",
        scores="1 of 6 batches failed",
    ),
    "answers late": Fault(
        add="time.sleep(600)",
        prepare="Failed: q1: The memory did not answer add within 3 s",
        answers=("error", "ok"),
        scores="1 of 2 histories could not be ingested",
        timeouts="add=3",
    ),
    "answers a question late": Fault(
        search="time.sleep(600 if 'bicycle' in query else 0)",
        answers=("error", "ok"),
        scores="faulty: 1 of 2 questions failed: The memory ",
        timeouts="search=3",
    ),
    "dies": Fault(
        add="os._exit(7)",
        prepare="Failed: q1: The memory process ended by itself with exit code 7",
        answers=("error", "ok"),
        scores="1 of 2 histories could not be ingested",
    ),
    "floods stdout": Fault(
        add="pipe = [int(one) for one in os.listdir('/proc/self/fd') if int(one) > 2 and 'pipe' in"
        " os.path.realpath(f'/proc/self/fd/{one}')]; [os.write(one, b'x' * 2**16) for one in pipe for _ in range(300)]",
        prepare="Failed: q1: The memory process wrote a line of more than 16 MB",
        answers=("error", "ok"),
        scores="1 of 2 histories could not be ingested",
    ),
    "returns strange ids": Fault(
        search="hits = [{**hit, 'message_ids': ['m_0000000000000000']} for hit in hits]",
        answers=("error", "ok"),
        scores="faulty: 1 of 2 questions failed: The memory ",
    ),
}
WORDS = ("--dataset", "d.json")


def data(folder: Path) -> Path:
    other = record("q2", haystack_sessions=[[{"role": "user", "content": "A car."}]] * 3, question="Where to?")
    write_dataset(folder / "d.json", record("q1"), other)
    return folder


def kept(folder: Path) -> dict[str, Any]:
    """All that is kept of bm25: its parts, the rankings, the scores and the answers, but for times."""
    runs = {json.loads(file.read_text())["run_id"]: file.parent for file in (folder / "results").glob("*/run.json")}
    timed = ("latency_ms", "recall_ms", "finished_at", "started_at", "seconds")
    answers = [
        {key: value for key, value in one.items() if key not in timed}
        for one in json_lines(runs["words"] / "answers.jsonl")
    ]
    parts = tree(folder / "prepared-data", without=("meta.json", "prepare.jsonl"))
    return {
        "answers": sorted(answers, key=lambda one: str(one["question_id"])),
        "scores": json.loads((folder / "scores.json").read_text())["overall"],
        "parts": {name: data for name, data in parts.items() if name.endswith(("db.json", "words.json"))},
        "rankings": json.loads((folder / "ranked.json").read_text()),
    }


def command(*words: str, cwd: Path, code: int = 0, timeouts: str = "") -> subprocess.CompletedProcess[str]:
    """The command, with time-outs where they are given."""
    if timeouts:
        return longmemeval(*words, cwd=cwd, code=code, LONGMEMEVAL_MEMORY_TIMEOUTS=timeouts)
    return longmemeval(*words, cwd=cwd, code=code)


def measured(folder: Path, *others: str, timeouts: str = "") -> None:
    """Run, judge and rank bm25; the others stand beside it in `retrieval`."""
    run = ("run", *WORDS, "--model", "offline/extractive")
    longmemeval(*run, "--memory", "bm25", "--run-id", "words", cwd=folder)
    scores = longmemeval("evaluate", "words", "--judge", "offline/lexical", "--json", cwd=folder)
    (folder / "scores.json").write_text(scores.stdout)
    named = [word for memory in (*others, "bm25") for word in ("--memory", memory)]
    ranked = command("retrieval", *WORDS, *named, "--json", cwd=folder, timeouts=timeouts)
    found = [one for one in json.loads(ranked.stdout)["results"] if one["memory"] == "bm25"]
    (folder / "ranked.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is kept of bm25 where it is the only memory."""
    folder = data(tmp_path_factory.mktemp("alone"))
    longmemeval("prepare", *WORDS, "--memory", "bm25", cwd=folder)
    measured(folder)
    return kept(folder)


@pytest.mark.variants
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_of_and_changes_no_other_result(name: str, alone: dict[str, Any], tmp_path: Path) -> None:
    fault, folder = FAULTS[name], data(tmp_path)
    (folder / "mymem.py").write_text(EXAMPLE)
    (folder / "faulty.py").write_text(CODE.replace("ADD", fault.add).replace("SEARCH", fault.search))
    memory, late = f"process:{SERVE} faulty:Faulty", fault.timeouts
    code = int(fault.prepare.startswith("Failed"))
    done = command("prepare", *WORDS, "--memory", memory, "--memory", "bm25", cwd=folder, code=code, timeouts=late)
    assert fault.prepare in " ".join(done.stderr.split())
    run = ("run", *WORDS, "--model", "offline/extractive", "--memory", memory, "--run-id", "faulty")
    failed = int("error" in fault.answers)
    command(*run, cwd=folder, code=failed, timeouts=late)
    answers = {one["question_id"]: one["status"] for one in json_lines(folder / "results/faulty/answers.jsonl")}
    assert (answers["q1"], answers["q2"]) == fault.answers
    scores = longmemeval("evaluate", "faulty", "--judge", "offline/lexical", cwd=folder, code=failed)
    assert fault.scores in " ".join(scores.stdout.split())
    measured(folder, memory, timeouts=late)
    assert kept(folder) == alone
