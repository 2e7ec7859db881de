"""A memory that raises what ends programs: it has failed like any other, at once, and nobody is interrupted."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from longmemeval.memory.external.messages import Add, Open, Search, SentMessage, SentSession
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from tests.memory.external.test_transports import ASKED
from tests.memory.external.transported import CARRIERS, memory_service
from tests.pipeline.helpers import colours, start
from tests.support import json_lines, longmemeval

LIMIT_S = 60
"""For a whole command on a busy machine; before, they hung."""

RAISED = {
    "SystemExit": "sys.exit(3)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "CancelledError": "raise asyncio.CancelledError",
    "StopIteration": "next(iter(()))",
    "a task's SystemExit": "sys.exit(3)",
    "cancelled by itself": "asyncio.current_task().cancel(); await asyncio.sleep(60)",
}
METHODS = ("__init__", "add", "search", "close")
CODE = """
import asyncio, sys

class Leaks:
    def __init__(self): pass
    async def add(self, session): pass
    async def search(self, query, *, date, limit): return []
    async def close(self): pass
    def save(self, folder): pass
    def load(self, folder): pass

async def in_a_task():
    FAULT

class Broken(Leaks):
    ASYNC def METHOD(self, *given, **named):
        RAISES
"""


def written(folder: Path, raised: str, method: str, *, asynchronous: bool) -> str:
    """Write a memory whose `method` fails in this way; its name, of a module that no other test has loaded."""
    name = f"leaks_{abs(hash((str(folder), raised, method, asynchronous)))}"
    fault = RAISED[raised]
    inside = "await asyncio.create_task(in_a_task())" if "task" in raised else fault
    code = CODE.replace("FAULT", fault).replace("RAISES", inside).replace("METHOD", method)
    (folder / f"{name}.py").write_text(code.replace("ASYNC ", "async " if asynchronous else ""))
    return f"{name}:Broken"


def cases() -> list[tuple[str, str, bool]]:
    both = [(raised, method, asynchronous) for raised in RAISED for method in METHODS for asynchronous in (False, True)]
    needs_loop = ("a task's SystemExit", "cancelled by itself")
    return [
        (raised, method, asynchronous)
        for raised, method, asynchronous in both
        if not (asynchronous and method == "__init__")
        and not (raised in needs_loop and not asynchronous)
        and not (raised == "StopIteration" and asynchronous)  # Python itself makes a RuntimeError of it.
    ]


async def _use(service: MemoryService, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    await service.open(Open("h_1", "", "prepare"))
    await service.add(Add("h_1", "b", SentSession("s", ASKED, (SentMessage("m", "user", "", "A beagle."),))))
    await service.search(Search("h_1", "beagle", ASKED, 1))
    await service.snapshot("h_1")


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("transport", CARRIERS[:3])
def test_it_is_an_error_of_the_memory_at_once(transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(service: MemoryService) -> str:
        await service.hello()
        with pytest.raises(ServiceError) as told:
            await asyncio.wait_for(_use(service, tmp_path / "kept"), LIMIT_S)
        return str(told.value)

    # In one process of its own each; a few are enough there.
    chosen = cases() if transport == "in process" else [one for one in cases() if one[1] == "add"]
    for raised, method, asynchronous in chosen:
        target = written(tmp_path, raised, method, asynchronous=asynchronous)
        with memory_service(transport, tmp_path, target) as (service, _):
            told = asyncio.run(work(service))
        expected = {"a task's SystemExit": ["SystemExit: 3"], "cancelled by itself": ["cancelled its own", "Cancelled"]}
        assert any(one in told for one in expected.get(raised, [raised])), (raised, method, told)


@pytest.mark.variants
@pytest.mark.parametrize("workers", [(), ("--jobs", "2"), ("--jobs", "2", "--executor", "threads")])
@pytest.mark.parametrize("raised", list(RAISED)[:3])
def test_prepare_tells_of_it_and_ends(tmp_path: Path, raised: str, workers: tuple[str, ...]) -> None:
    colours(tmp_path / "d.json", 3)
    target = written(tmp_path, raised, "add", asynchronous=False)
    process = start("prepare", "--dataset", "d.json", "--memory", target, *workers, cwd=tmp_path)
    _, told = process.communicate(LIMIT_S)
    assert process.returncode == 1, told
    assert raised in told
    assert "Interrupted" not in told
    assert "Traceback" not in told


@pytest.mark.variants
@pytest.mark.parametrize("method", ["__init__", "add", "search"])
def test_check_names_what_failed(tmp_path: Path, method: str) -> None:
    for raised in list(RAISED)[:3]:
        target = written(tmp_path, raised, method, asynchronous=False)
        process = start("memory", "check", target, cwd=tmp_path)
        shown, told = process.communicate(LIMIT_S)
        assert process.returncode == 3, (shown, told)
        assert raised in shown


RECALLS = """
import asyncio, sys

class Broken:
    def __init__(self, parameters, tools):
        MADE

    async def recall(self, question, fixture):
        RECALLED
"""


@pytest.mark.variants
@pytest.mark.parametrize("raised", [*list(RAISED)[:3], "ValueError"])
def test_run_and_retrieval_count_the_questions_a_recall_fails_at(tmp_path: Path, raised: str) -> None:
    colours(tmp_path / "d.json", 2)
    fault = RAISED.get(raised, "raise ValueError('no')")
    (tmp_path / "mymem.py").write_text(RECALLS.replace("MADE", "pass").replace("RECALLED", fault))
    memory = ("--dataset", "d.json", "--memory", "mymem:Broken")
    longmemeval("prepare", *memory, cwd=tmp_path)
    process = start("run", *memory, "--model", "offline/extractive", "--run-id", "r", cwd=tmp_path)
    _, told = process.communicate(LIMIT_S)
    assert process.returncode == 1, told
    answers = json_lines(tmp_path / "results/r/answers.jsonl")
    assert [raised in answer["error"] for answer in answers] == [True, True]
    assert "Interrupted" not in told
    process = start("retrieval", *memory, "--run-id", "s", cwd=tmp_path)
    process.communicate(LIMIT_S)
    rankings = json_lines(tmp_path / "results/s/rankings.jsonl")
    assert [raised in ranking["error"] for ranking in rankings] == [True, True]


@pytest.mark.parametrize("raised", list(RAISED)[:3])
def test_one_that_cannot_be_made_or_imported_is_the_user_s_mistake(tmp_path: Path, raised: str) -> None:
    colours(tmp_path / "d.json", 1)
    code = RECALLS.replace("MADE", RAISED[raised]).replace("RECALLED", "pass")
    (tmp_path / "mymem.py").write_text(code)
    (tmp_path / "unloadable.py").write_text(f"import asyncio, sys\n{RAISED[raised]}\n")
    memory = ("--dataset", "d.json", "--memory", "mymem:Broken")
    longmemeval("prepare", *memory, cwd=tmp_path)
    told = longmemeval("run", *memory, "--model", "offline/extractive", cwd=tmp_path, code=2).stderr
    assert f"The memory failed: mymem.py, line 6: {raised}" in told
    assert raised in longmemeval("memory", "check", "unloadable:Any", cwd=tmp_path, code=2).stderr


@pytest.mark.variants
@pytest.mark.parametrize("workers", [(), ("--jobs", "2"), ("--jobs", "2", "--executor", "threads")])
def test_ctrl_c_while_a_method_is_at_work_still_wins(tmp_path: Path, workers: tuple[str, ...]) -> None:
    colours(tmp_path / "d.json", 3)
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "class Slow:\n"
        "    def add(self, session):\n"
        "        pathlib.Path('begun').touch(); time.sleep(600)\n"
        "    def search(self, query, *, date, limit):\n"
        "        return []\n"
        "    def save(self, folder): pass\n"
        "    def load(self, folder): pass\n"
    )
    process = start("prepare", "--dataset", "d.json", "--memory", "slow:Slow", *workers, cwd=tmp_path)
    deadline = time.monotonic() + LIMIT_S
    while not (tmp_path / "begun").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT, group=True)
    _, told = process.communicate(LIMIT_S)
    assert (process.returncode, told) == (
        130,
        "Interrupted. Finished work is kept. Rerun the same command to continue.\n",
    )
