"""How much faster two workers prepare than one: fresh processes, fastest of several, the machine otherwise idle.

Haystacks of the size of LongMemEval_S, every text another, with the offline embedder and working memory by rules. One
worker means no worker process: embedding, rules, graph and writing in turn.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def seconds(folder: Path, memory: str, jobs: int) -> float:
    """What one `prepare` from nothing takes."""
    for name in ("prepared-data", "data"):
        shutil.rmtree(folder / name, ignore_errors=True)
    command = ["-m", "longmemeval", "prepare", "--dataset", "many.json", "--memory", memory, "--jobs", str(jobs)]
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Print seconds and ratios."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--haystacks", type=int, default=40)
    arguments.add_argument("--repeats", type=int, default=2)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "many.json", asked.haystacks)
        for memory in ("semantic-recall", "combined"):
            taken = {jobs: min(seconds(folder, memory, jobs) for _ in range(asked.repeats)) for jobs in (1, 2)}
            print(f"{memory}: {taken[1]:.1f} s by one, {taken[2]:.1f} s by two: {taken[1] / taken[2]:.2f}x")


main()
