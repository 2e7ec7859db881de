"""What the verbs take on histories of more and more messages: seconds, processor time, memory of all processes.

    python scripts/benchmarks/scale.py [--messages 250 1000 5000 20000] [--memory hybrid]
    python scripts/benchmarks/scale.py --haystacks 3 12

Histories are those of `shapes.py`: one of so many messages, or with `--haystacks` so many of LongMemEval_M's size.
Memory is the highest sum over a command and its children, looked at every 20 ms (Linux). Of one history also what
opening it and recalling from it take, in a process of its own: processor time, the embedding of the questions in it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from shapes import shape_of_10m, shape_of_m, write

from longmemeval.core.event_loop import complete
from longmemeval.embedding.registry import load_embedder
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.records import Question
from longmemeval.storage.fixture import Fixture

PAGE = os.sysconf("SC_PAGE_SIZE")


def processes(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from processes(int(child))
    except OSError:
        return  # It has ended.


def resident(pid: int) -> int:
    """Bytes of a process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def told(folder: Path, *command: str) -> None:
    """Run a verb, and print what it took."""
    started, before, peak = time.perf_counter(), os.times(), 0
    line = [sys.executable, "-m", "longmemeval", *command]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident, processes(process.pid))))
            time.sleep(0.02)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    failed = f", FAILED with {process.returncode}" if process.returncode else ""
    seconds = time.perf_counter() - started
    print(f"  {command[0]:10} {seconds:6.1f} s, processor {processor:6.1f} s, {peak / 1e6:5.0f} MB{failed}", flush=True)


async def recalls(fixture: Path, memory_name: str) -> None:
    """Print what opening the fixture of a history takes, the first recall, and those after it."""
    embedder = load_embedder("hashing")
    memory = build_memory(
        resolve_configuration(memory_name), MemoryTools(embed_query=lambda text: embedder.embed([text])[0])
    )
    times, started = list[float](), time.process_time()
    opened = Fixture.open(fixture)
    messages, _, _ = opened.memory.messages, opened.part(WORDS), opened.part(VECTORS)
    hydrate = time.process_time() - started
    for number in range(100):
        words = messages[number * 101 % len(messages)].content.split()[:12]
        question = Question(f"q{number}", " ".join(words), datetime(2030, 1, 1), "", fixture.name)
        started = time.process_time()
        await memory.recall(question, opened)
        times.append(1000 * (time.process_time() - started))
    first, *warm = times
    print(
        f"  opening {hydrate:.2f} s; recall: first {first:.0f} ms, then p50 {statistics.median(warm):.1f} ms, ", end=""
    )
    print(f"p95 {sorted(warm)[94]:.1f} ms", flush=True)


def measure(folder: Path, memory: str) -> None:
    """All verbs on the data set `d.json`."""
    data = ("--dataset", "d.json")
    told(folder, "prepare", *data, "--memory", memory, "--embedder", "hashing")
    told(folder, "run", *data, "--memory", memory, "--model", "offline/extractive", "--run-id", "r")
    told(folder, "retrieval", *data, "--memory", memory)
    told(folder, "evaluate", "r", "--judge", "offline/lexical")
    told(folder, "inspect", "q0", *data)
    told(folder, "verify", "r")
    told(folder, "verify", "d/default")
    told(folder, "report", "r", "--output", "r.html")
    fixtures = [one for one in (folder / "prepared-data" / "d" / "default").iterdir() if one.is_dir()]
    if len(fixtures) == 1:
        subprocess.run([sys.executable, __file__, "--fixture", fixtures[0], "--memory", memory], check=True)


def main() -> None:
    """Print a block for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[250, 1000, 5000, 20000])
    parser.add_argument("--haystacks", type=int, nargs="+", help="so many of LongMemEval_M's size instead")
    parser.add_argument("--memory", default="hybrid")
    parser.add_argument("--fixture", type=Path, help="recall from this one alone")
    asked = parser.parse_args()
    if asked.fixture:
        complete(recalls(asked.fixture, asked.memory))
        return
    for size in asked.haystacks or asked.messages:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "d.json", shape_of_m(size, 475) if asked.haystacks else shape_of_10m(size))
            print(f"{size:,} haystacks of 475 sessions" if asked.haystacks else f"one haystack of {size:,} messages")
            measure(folder, asked.memory)


if __name__ == "__main__":
    main()
