"""A sharded run that is killed at random moments, twenty times in all, against one that nobody disturbs.

The sample, four times over, is answered in four shards by commands that are killed and given again; the shards are
merged, verified and compared with the run of one command.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHARDS = 4
COPIES = 4
TIMES = {"recall_ms", "latency_ms"}


def longmemeval(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The command, under way."""
    command = [sys.executable, "-m", "longmemeval", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def done(folder: Path, *arguments: str) -> str:
    """What the command printed; it has to succeed."""
    process = longmemeval(folder, *arguments)
    printed, _ = process.communicate()
    if process.returncode:
        sys.exit(f"longmemeval {' '.join(arguments)}: exit code {process.returncode}\n{printed}")
    return printed


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a journal, by question, without times."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    kept = [{key: value for key, value in one.items() if key not in TIMES} for one in records]
    return sorted(kept, key=lambda one: str(one["question_id"]))


def main() -> None:
    """Kill, go on, merge, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample = json.loads((Path(__file__).parents[2] / "data" / "sample" / "sample.json").read_text())
        copies = [one | {"question_id": f"{one['question_id']}-{copy}"} for copy in range(COPIES) for one in sample]
        (folder / "many.json").write_text(json.dumps(copies))
        done(folder, "prepare", "--dataset", "many.json", "--memory", "full-history")
        run = ("run", "--dataset", "many.json", "--memory", "full-history", "--model", "offline/extractive")
        done(folder, *run, "--run-id", "whole")
        started, kills = time.perf_counter(), 0
        while kills < given.kills:  # One that comes too late does not count.
            shard = chance.randint(1, SHARDS)
            journal = folder / "results" / f"r-{shard}of{SHARDS}" / "answers.jsonl"
            wanted = whole_lines(journal) + chance.randint(0, 4)
            process = longmemeval(folder, *run, "--run-id", "r", "--shard", f"{shard}/{SHARDS}")
            while process.poll() is None and whole_lines(journal) < wanted:
                time.sleep(0.001)
            time.sleep(chance.random() / 50)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        for number in range(1, SHARDS + 1):
            done(folder, *run, "--run-id", "r", "--shard", f"{number}/{SHARDS}")
        done(folder, "merge", f"r-*of{SHARDS}")
        print(done(folder, "verify", "r").strip())
        for journal_name in ("answers.jsonl", "prompts.jsonl"):
            same = lines(folder / "results/r" / journal_name) == lines(folder / "results/whole" / journal_name)
            print(f"{journal_name}: {'equal' if same else 'DIFFERENT'}")
        print(f"{kills} kills in {time.perf_counter() - started:.0f} s, {len(copies)} questions in {SHARDS} shards")


def whole_lines(path: Path) -> int:
    """How many lines of a file are whole."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    main()
