"""Runs by batch against a local server of OpenAI's kind: 500 questions as direct calls answer them, and twenty kills.

The server answers one request in twenty with an error, lets the first batch expire half done, and mixes the order of
replies. Then runs of 40 questions are killed at random moments and given again, until twenty kills have hit.
"""

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from longmemeval.dataset import Dataset
from longmemeval.llm.costs import SPENDING, spent_in
from longmemeval.llm.options import ModelOptions
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import KEY, ask, by_question, reply
from tests.pipeline.helpers import answers, prepared_colours, start
from tests.pipeline.sweeps import PRICED
from tests.support import longmemeval

QUESTIONS, KILLED_QUESTIONS = 500, 40


def failing(number: int, body: dict[str, Any]) -> int | None:
    """One request in twenty fails, another one each time."""
    return 500 if number % 20 == 0 else None


def equal(dataset: Dataset, folders: Folders) -> None:
    """Answer all questions directly and by batch."""
    with BatchServer(reply) as server:
        server.spoil = failing
        server.outcomes.append("expired")
        seconds = []
        for name, given in (("direct", {"batch": None}), ("batched", {})):
            started = time.perf_counter()
            ask(dataset, folders, server, name, model_options=ModelOptions(server.url), **given)
            seconds.append(time.perf_counter() - started)
        same = by_question(folders, "direct") == by_question(folders, "batched")
        spent = [spent_in(folders.results_dir / name / SPENDING) for name in ("direct", "batched")]
        print(f"{len(dataset)} questions, batches of {server.sizes}: answers {'equal' if same else 'DIFFERENT'}")
        print(f"requests paid for more than once: {sum(times > 1 for times in server.paid.values())}")
        print(
            f"cost by batch / direct: {spent[1] / spent[0]:.3f}; {seconds[0]:.0f} s direct, {seconds[1]:.0f} s by batch"
        )


def killed(dataset: Dataset, folders: Folders, kills: int, chance: random.Random) -> None:
    """Kill runs at random moments and give them again."""
    with BatchServer(reply) as server:
        ask(dataset, folders, server, "undisturbed", batch=None)
        folder, hits, runs, wrong = folders.results_dir.parent, 0, 0, 0
        command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", PRICED, "--batch")
        options = ("--api-base", server.url, "--run-id")
        while hits < kills:
            run_id, runs = f"killed-{runs}", runs + 1
            server.paid.clear()
            steps = folders.results_dir / run_id
            for _ in range(2):
                process = start(*command, *options, run_id, cwd=folder, OPENAI_API_KEY=KEY)
                while process.poll() is None and not steps.exists():
                    time.sleep(0.001)
                time.sleep(chance.random() * 0.6)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                hits += process.returncode == -signal.SIGKILL
            longmemeval(*command, *options, run_id, cwd=folder, OPENAI_API_KEY=KEY)
            as_it_should = by_question(folders, run_id) == by_question(folders, "undisturbed")
            wrong += (
                not as_it_should or len(answers(folders, run_id)) != len(dataset) or set(server.paid.values()) != {1}
            )
        print(f"{hits} kills in {runs} runs of {len(dataset)} questions: {wrong} runs end otherwise or paid twice")


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = KEY
    with tempfile.TemporaryDirectory() as name:
        equal(*prepared_colours(Path(name), QUESTIONS))
    with tempfile.TemporaryDirectory() as name:
        killed(*prepared_colours(Path(name), KILLED_QUESTIONS), given.kills, random.Random(given.seed))


if __name__ == "__main__":
    main()
