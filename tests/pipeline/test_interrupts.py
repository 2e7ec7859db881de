"""Ctrl-C, once and twice: one sentence, exit code 130, nothing half-written, nothing lost."""

import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longmemeval.pipeline.prepare.prepare import prepare
from tests.core.executors.test_clusters import GATED, at_work
from tests.forking import Forked
from tests.memory.external.transported import EXAMPLE
from tests.pipeline.helpers import answer_all, colours, litter, prepared_colours, start
from tests.pipeline.sweeps import written
from tests.server import ModelServer
from tests.support import ROOT, clean_environment, next_steps

SENTENCE = "Interrupted. Finished work is kept. Rerun the same command to continue.\n"
FOREVER = "slow:25"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: '{"edits": []}') as running:
        yield running


def wait_until(reached: Callable[[], bool], process: Forked) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def interrupt(process: Forked, pauses: tuple[float, ...], number: int = signal.SIGINT) -> str:
    """Ctrl-C, and again after each of `pauses`; standard error."""
    for pause in (0.0, *pauses):
        time.sleep(pause)
        process.send_signal(number, group=True)
    return process.communicate()[1]


ALONE, PROCESSES, THREADS = ("--jobs", "1"), ("--jobs", "2"), ("--jobs", "2", "--executor", "threads")


@pytest.mark.variants
@pytest.mark.parametrize(
    ("workers", "pauses"),
    [(ALONE, ()), (ALONE, (0.0,)), (PROCESSES, (0.02, 0.3)), (THREADS, (0.02,))],
    ids=["alone, once", "alone, twice", "processes, thrice", "threads, twice"],
)
def test_while_a_model_is_asked(
    server: ModelServer, tmp_path: Path, workers: tuple[str, ...], pauses: tuple[float, ...]
) -> None:
    colours(tmp_path / "d.json", 6)
    server.faults.extend(["slow:0", "slow:0", "slow:0", FOREVER, FOREVER])
    model = ("--working-memory-model", "openai/local", "--api-base", server.url)
    command = ("prepare", "--dataset", "d.json", "--memory", "working-memory", *model, *workers)
    process = start(*command, cwd=tmp_path)
    wait_until(lambda: len(server.chat_requests) >= 4, process)
    told = interrupt(process, pauses)
    assert told == SENTENCE
    assert process.returncode == 130
    assert litter(tmp_path / "prepared-data") == []


@pytest.mark.parametrize(
    ("workers", "number"),
    [
        pytest.param(ALONE, signal.SIGTERM, id="alone-SIGTERM"),
        pytest.param(ALONE, signal.SIGHUP, id="alone-SIGHUP"),
        # Each worker loads what asks models for seconds; usually the next test is enough.
        pytest.param(PROCESSES, signal.SIGTERM, id="processes-SIGTERM", marks=pytest.mark.thorough),
        pytest.param(PROCESSES, signal.SIGHUP, id="processes-SIGHUP", marks=pytest.mark.thorough),
        pytest.param(THREADS, signal.SIGTERM, id="threads-SIGTERM"),
        pytest.param(THREADS, signal.SIGHUP, id="threads-SIGHUP"),
    ],
)
def test_sigterm_and_sighup_end_like_ctrl_c(
    server: ModelServer, tmp_path: Path, workers: tuple[str, ...], number: int
) -> None:
    colours(tmp_path / "d.json", 6)
    server.faults.extend(["slow:0", "slow:0", "slow:0", FOREVER, FOREVER])
    model = ("--working-memory-model", "openai/local", "--api-base", server.url)
    command = ("prepare", "--dataset", "d.json", "--memory", "working-memory", *model, *workers)
    process = start(*command, cwd=tmp_path)
    # Every worker waits for its reply: no earlier one is still on its way.
    waiting = 1 if workers == ALONE else 2
    wait_until(lambda: len(server.chat_requests) >= 3 + waiting, process)
    assert interrupt(process, (), number) == SENTENCE.replace("ed.", f"ed by {signal.Signals(number).name}.", 1)
    assert process.returncode == 128 + number
    server.faults.clear()
    # What worker processes left is taken up by this one, which loads what asks models once.
    again = ALONE if workers == PROCESSES else workers
    resumed = start(*command[: -len(workers)], *again, cwd=tmp_path)
    assert resumed.communicate()[1] == ""
    assert resumed.returncode == 0


def test_sigterm_while_worker_processes_fill_a_memory(tmp_path: Path) -> None:
    colours(tmp_path / "d.json", 6)
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    (tmp_path / "gated.py").write_text(GATED)
    command = ("prepare", "--dataset", "d.json", "--memory", "gated:Gated")
    process = start(*command, *PROCESSES, cwd=tmp_path)
    wait_until(lambda: len(at_work(tmp_path)) == 2, process)
    assert interrupt(process, (), signal.SIGTERM) == SENTENCE.replace("ed.", "ed by SIGTERM.", 1)
    assert process.returncode == 128 + signal.SIGTERM
    (tmp_path / "open").touch()
    resumed = start(*command, *ALONE, cwd=tmp_path)
    assert resumed.communicate()[1] == ""
    assert resumed.returncode == 0


@pytest.mark.parametrize("pauses", [(), (0.01,)], ids=["once", "twice"])
def test_while_texts_are_embedded(server: ModelServer, tmp_path: Path, pauses: tuple[float, ...]) -> None:
    colours(tmp_path / "d.json", 6)
    server.embedding_faults.append(FOREVER)
    embedder = ("--embedder", "openai:local", "--api-base", server.url)
    process = start("prepare", "--dataset", "d.json", "--memory", "semantic-recall", *embedder, cwd=tmp_path)
    wait_until(lambda: bool(server.requests), process)
    told = interrupt(process, pauses)
    assert told == SENTENCE
    assert process.returncode == 130
    assert litter(tmp_path / "prepared-data") == []


def test_while_workers_are_started(tmp_path: Path) -> None:
    """They are in the terminal's process group too, and must not tell of it."""
    colours(tmp_path / "d.json", 40)
    for pause in (0.0, 0.3):
        command = ("prepare", "--dataset", "d.json", "--memory", "combined", "--jobs", "2", "--name", f"after-{pause}")
        process = start(*command, cwd=tmp_path)
        wait_until((tmp_path / f"prepared-data/d/after-{pause}/prepare.jsonl").exists, process)
        time.sleep(pause)
        told = interrupt(process, ())
        assert told == SENTENCE or process.returncode == 0
        assert litter(tmp_path / "prepared-data") == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 400 prepared haystacks, which take a while to rank."""
    folder = tmp_path_factory.mktemp("many")
    prepared_colours(folder, 400, "bm25")
    return folder


@pytest.mark.parametrize(
    "pauses",
    [
        pytest.param((), id="once"),
        pytest.param((0.0,), id="twice", marks=pytest.mark.thorough),
        pytest.param((0.02, 0.1), id="thrice", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("workers", [ALONE, PROCESSES], ids=["alone", "processes"])
def test_while_histories_are_ranked(
    many: Path, tmp_path: Path, workers: tuple[str, ...], pauses: tuple[float, ...]
) -> None:
    read = ("--dataset", many / "colours.json", "--prepared-dir", many / "prepared-data", "--memory", "bm25")
    process = start("retrieval", *read, "--run-id", "r", *workers, cwd=tmp_path)
    rankings = tmp_path / "results/r/rankings.jsonl"
    wait_until(lambda: rankings.exists() and rankings.stat().st_size > 0, process)
    told = interrupt(process, pauses)
    assert (told, process.returncode) == (SENTENCE, 130) or process.returncode == 0
    assert litter(tmp_path / "results") == []


@pytest.mark.parametrize("verb", ["run", "evaluate", "sweep", "retrieval"])
def test_twice_while_many_calls_are_under_way(server: ModelServer, tmp_path: Path, verb: str) -> None:
    dataset, folders = prepared_colours(tmp_path, 40, "none")
    answer_all(dataset, folders, memory="none")
    model = ("--api-base", server.url, "--concurrency", "16")
    answering = ("--dataset", dataset.path, "--memory", "none", "--model", "openai/local", "--run-id", "s")
    sweep = {"models": [{"spec": "openai/local", "name": "m", "api_base": server.url}], "memories": ["none"]}
    commands: dict[str, tuple[str | Path, ...]] = {
        "run": ("run", *answering, *model),
        "evaluate": ("evaluate", "r", "--judge", "openai/judge", *model),
        "sweep": ("sweep", written(tmp_path, **sweep)),
        "retrieval": (
            *("retrieval", "--dataset", dataset.path, "--memory", "bm25", "--set", "decompose=model"),
            *("--query-model", "openai/local", "--api-base", server.url),
        ),
    }
    if verb == "retrieval":
        prepare(dataset, ["bm25"], folders=folders)
    server.plan = lambda: FOREVER if len(server.chat_requests) > 5 else None
    process = start(*commands[verb], cwd=tmp_path)
    wait_until(lambda: len(server.chat_requests) >= 8, process)
    told = interrupt(process, (0.0, 0.1))
    if verb == "run":
        resumed = shlex.join(map(str, ("run", *answering[:-2], *model, "--resume", "s")))
        assert "Interrupted. Finished work is kept.\n" in told
        assert next_steps(told) == [shlex.split(resumed)]
    else:
        assert told.endswith(SENTENCE)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "never awaited" not in told
    assert litter(tmp_path) == []


@pytest.mark.parametrize("library", ["typer", "rich", "msgspec"])
@pytest.mark.parametrize("begun", [("-m", "longmemeval"), ("-c", "from longmemeval.__main__ import main; main()")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_python_is_still_importing(tmp_path: Path, library: str, begun: tuple[str, str], number: int) -> None:
    # In the place of a library that the command loads first: one during whose import Ctrl-C is pressed.
    (tmp_path / f"{library}.py").write_text(
        f"import os, signal, time\nos.kill(os.getpid(), {number:d})\ntime.sleep(9)\n"
    )
    environment = clean_environment() | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *begun, "--help"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "Interrupted. Nothing was started.\n")


def test_the_installed_command_begins_where_interrupts_are_held() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"longmemeval": "longmemeval.__main__:main"}
