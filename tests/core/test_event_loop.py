"""Asynchronous work from ordinary code, with and without a loop that runs already."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from longmemeval.core.event_loop import complete, in_thread, own_time, paused
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from tests.pipeline.helpers import MODEL, prepared_colours
from tests.support import clean_environment


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


async def fail() -> None:
    raise ValueError("on purpose")


def test_without_a_loop() -> None:
    assert complete(answer()) == 42


def test_inside_a_loop() -> None:
    async def notebook() -> int:
        return complete(answer())

    assert asyncio.run(notebook()) == 42


def test_an_error_comes_through_and_what_is_left_is_cancelled() -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def both() -> None:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        assert not task.done()
        await fail()

    async def notebook() -> None:
        complete(both())

    with pytest.raises(ValueError, match="on purpose"):
        asyncio.run(notebook())
    assert cancelled == [True]


def test_what_was_begun_is_finished_with_the_loop() -> None:
    closed = []

    async def connection() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            closed.append(True)

    held = connection()

    async def use() -> None:
        await anext(held)

    async def notebook() -> None:
        complete(use())

    asyncio.run(notebook())
    assert closed == [True]


@pytest.mark.slow
def test_time_that_is_not_its_own_is_left_out_once() -> None:
    """Waiting for the work thread, while something is opened, is part of the opening and of nothing else."""

    async def measured() -> float:
        blocker = asyncio.create_task(in_thread(time.sleep, 0.3))
        await asyncio.sleep(0)
        with own_time() as stopwatch:
            with paused():
                await in_thread(int)
            await asyncio.sleep(0.3)
        await blocker
        return stopwatch.milliseconds

    assert complete(measured()) >= 299


INTERRUPTED = """
import asyncio, os, signal, threading
from longmemeval.core.event_loop import complete, in_thread, own_time, paused

async def forever():
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        await asyncio.sleep(60)
    finally:
        print("wound up", flush=True)

async def notebook():
    try:
        complete(forever())
    except KeyboardInterrupt:
        print("interrupted", threading.active_count(), flush=True)

# A notebook's loop leaves interrupts to Python, where `asyncio.run` has a handler of its own.
asyncio.new_event_loop().run_until_complete(notebook())
"""


def test_an_interrupt_inside_a_loop_cancels_the_work_and_leaves_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], env=clean_environment(), capture_output=True, text=True, timeout=200
    )
    assert done.stdout.splitlines() == ["wound up", "interrupted 1"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_run_and_evaluate_inside_a_notebooks_loop(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, memory="semantic-recall")

    async def notebook() -> float:
        run(dataset, "semantic-recall", MODEL, options=RunOptions(run_id="r"), folders=folders)
        return evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics.overall.accuracy

    assert asyncio.run(notebook()) == 1.0
