"""How much faster two workers prepare than one: fresh processes, fastest of several, the machine otherwise idle.

Haystacks of the size of LongMemEval_S, every text another, with the offline embedder and working memory by rules. One
worker means no worker process: embedding, rules, graph and writing in turn. Printed is also the processor time of all
processes together: where others use the machine, seconds say more of them, and two workers can at best take half of it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
MESSAGES = 550


def write_data(path: Path, haystacks: int) -> None:
    """A file of `haystacks` questions, each with a history of about `MESSAGES` turns that no other has."""
    (first, *_) = json.loads((REAL if REAL.exists() else SAMPLE).read_text())
    sessions = first["haystack_sessions"]
    times = -(-MESSAGES // sum(map(len, sessions)))
    records = []
    for number in range(haystacks):
        record = {**first, "question_id": f"q{number}", "answer_session_ids": []}
        record["haystack_sessions"] = [
            [{"role": turn["role"], "content": f"{number}.{again} {turn['content']}"} for turn in session]
            for again in range(times)
            for session in sessions
        ]
        record["haystack_session_ids"] = [f"s{place}" for place in range(times * len(sessions))]
        record["haystack_dates"] = first["haystack_dates"] * times
        records.append(record)
    path.write_text(json.dumps(records))


class Taken(NamedTuple):
    """What one `prepare` took."""

    seconds: float
    processor: float
    """Seconds of all its processes."""


def taken(folder: Path, memory: str, jobs: int) -> Taken:
    """Prepare from nothing."""
    for name in ("prepared-data", "data"):
        shutil.rmtree(folder / name, ignore_errors=True)
    command = ["-m", "longmemeval", "prepare", "--dataset", "many.json", "--memory", memory, "--jobs", str(jobs)]
    started, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(time.perf_counter() - started, processor)


def main() -> None:
    """Print seconds and ratios."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--haystacks", type=int, default=40)
    arguments.add_argument("--repeats", type=int, default=2)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "many.json", asked.haystacks)
        for memory in ("semantic-recall", "hybrid", "combined"):
            runs = {jobs: [taken(folder, memory, jobs) for _ in range(asked.repeats)] for jobs in (1, 2)}
            one, two = (Taken(*map(min, zip(*runs[jobs], strict=True))) for jobs in (1, 2))
            print(
                f"{memory}: {one.seconds:.1f} s by one, {two.seconds:.1f} s by two: {one.seconds / two.seconds:.2f}x; "
                f"processor time {one.processor:.1f} s and {two.processor:.1f} s: "
                f"at best {2 * one.processor / two.processor:.2f}x",
                flush=True,
            )


main()
