"""An executor of another package, named on the command line; and workers that outlive the process that began them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from threading import Event

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.results.selection import Selection
from tests.cli.test_plugins import install
from tests.core.executors.test_clusters import GATED, at_work
from tests.core.executors.test_executors import is_alive
from tests.memory.external.transported import EXAMPLE
from tests.pipeline.helpers import folders_in, start, timeless
from tests.pipeline.test_interrupts import wait_until
from tests.pipeline.test_workers import children_of
from tests.support import ROOT, longmemeval

PLAIN = '''
from concurrent.futures import ThreadPoolExecutor

from longmemeval.core.executors.finished import as_finished


class Plain:
    """Tasks in the pool of the standard library."""

    def map(self, tasks, workers):
        with ThreadPoolExecutor(workers) as pool:
            yield from as_finished(pool.submit, tasks, workers or 2)
'''
POINTS = "[longmemeval.executors]\nplain = plain_executor:Plain\n"
PREPARE = ("prepare", "--dataset", "sample", "--memory", "combined", "--limit", "6")
RANK = ("retrieval", "--dataset", "sample", "--memory", "hybrid", "--limit", "6", "--run-id", "r")


def test_an_executor_of_another_package_gives_the_same_files(tmp_path: Path) -> None:
    site, alone, outside = (tmp_path / name for name in ("site-packages", "alone", "outside"))
    for folder in (site, alone, outside):
        folder.mkdir()
    install(site, "plain_executor", PLAIN, POINTS)
    by_plain = ("--executor", "plain", "--jobs", "3")
    for command in (PREPARE, RANK):
        longmemeval(*command, "--jobs", "1", cwd=alone)
        longmemeval(*command, *by_plain, cwd=outside, PYTHONPATH=str(site))
    assert sum(name.endswith("meta.json") for name in timeless(outside)) == 6
    done, wanted = ({name: one for name, one in timeless(at).items() if "jsonl" not in name} for at in (outside, alone))
    assert done.keys() == wanted.keys()
    assert {name for name in done if done[name] != wanted[name]} <= {"results/r/run.json"}
    told = longmemeval(*PREPARE, *by_plain, cwd=outside, code=2).stderr
    assert "Unknown executor 'plain'" in told


class Detached:
    """Each task in a process of its own, in another folder, whose parent is gone before the work begins."""

    def map(self, tasks: Iterable[Task[object, object]], workers: int | None) -> Iterator[Done[object]]:
        for task in tasks:
            data = bytes(ForkingPickler.dumps(task))
            work = (
                "import os, pickle, sys, time\n"
                "data = sys.stdin.buffer.read()\n"
                "if os.fork(): os._exit(0)\n"
                "time.sleep(0.3)\n"
                "sys.stdout.buffer.write(pickle.dumps(pickle.loads(data)()))"
            )
            done = subprocess.run(
                [sys.executable, "-c", work],
                input=data, stdout=subprocess.PIPE, cwd="/", env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
            )  # fmt: skip
            received: Done[object] = ForkingPickler.loads(done.stdout)
            yield received


@pytest.mark.thorough
@pytest.mark.slow
def test_workers_elsewhere_whose_parent_is_gone_write_their_fixtures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is needed for a scheduler's workers: tasks that can be pickled, and files found from any folder."""
    monkeypatch.chdir(tmp_path)
    dataset, some = load_dataset("sample"), Selection(limit=2)
    trees = []
    for name, executor in (("alone", None), ("detached", f"{__name__}:Detached")):
        folders = folders_in(Path(name))
        prepare(dataset, ["combined"], selection=some, options=PrepareOptions(executor=executor), folders=folders)
        options = RetrievalOptions(run_id="r", executor=executor)
        report = retrieve(dataset, ["hybrid"], selection=some, options=options, folders=folders)
        assert report.runs[0].newly_ranked == 2
        trees.append(timeless(Path(name)))
    assert trees[0] == trees[1]


@pytest.mark.thorough
def test_processes_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    """While they fill a memory that takes its time: nobody is left to write beside the next command."""
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    (tmp_path / "gated.py").write_text(GATED)
    command = start(
        *("prepare", "--dataset", "sample", "--memory", "gated:Gated", "--limit", "4", "--jobs", "2"), cwd=tmp_path
    )
    wait_until(lambda: len(at_work(tmp_path)) == 2, command)
    workers = children_of(command)
    assert sorted(workers) == sorted(at_work(tmp_path))
    command.send_signal(signal.SIGKILL)
    command.communicate()
    for worker in workers:
        for _ in range(1200):
            if not is_alive(worker):
                break
            Event().wait(0.05)
        assert not is_alive(worker)
