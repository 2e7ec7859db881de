"""How much faster two workers of a cluster prepare than one, and what the cluster takes of the processor.

Haystacks like LongMemEval_M's, which share sessions, with the offline embedder: by one process without a
cluster, by one worker and by two in turn, after a small preparation by each that does not count, at which Dask's
workers load the libraries (Ray's load them for each command). Processor time is that of all processes: command,
scheduler, workers. Where others use the machine it says more than seconds; two workers can at best take half of it.
With `--wait` texts are embedded by a local server that takes so many seconds for a request, and cores count for little.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from shapes import shape_of_m, write

from tests.core.executors.clusters import KEY, Cluster, DaskCluster, RayCluster
from tests.server import ModelServer

PREPARE = ("prepare", "--memory", "hybrid", "--dataset")


def processor(parent: int) -> float:
    """Seconds of a process, all that it began, and what of that has ended."""
    ticks: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, total = [parent], 0.0
    for process in found:
        found += children.get(process, [])
        total += ticks.get(process, 0)
    return total / os.sysconf("SC_CLK_TCK")


def taken(folder: Path, dataset: str, *how: str) -> tuple[float, float]:
    """Seconds, and those of all processors, of a preparation from nothing."""
    shutil.rmtree(folder / "prepared-data", ignore_errors=True)
    before, started = processor(os.getpid()), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "longmemeval", *PREPARE, dataset, *how], cwd=folder, check=True, capture_output=True
    )
    return time.perf_counter() - started, processor(os.getpid()) - before


def main() -> None:
    """Print seconds and ratios, the middle ones of several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("dask", "ray"), default="dask")
    parser.add_argument("--haystacks", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--wait", type=float, default=0)
    asked = parser.parse_args()
    kind: type[Cluster] = {"dask": DaskCluster, "ray": RayCluster}[asked.engine]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, kinds = Path(name), {"alone": ("--jobs", "1")}
        embedder: tuple[str, ...] = ()
        if asked.wait:
            server = stack.enter_context(ModelServer(dimension=384))
            server.plan = lambda: f"slow:{asked.wait}"
            embedder = ("--embedder", "openai:text-embedding-3-small", "--api-base", server.url)
            os.environ["OPENAI_API_KEY"] = KEY
        write(folder / "small.json", shape_of_m(4, 20))
        write(folder / "m.json", shape_of_m(asked.haystacks, asked.sessions))
        for workers, words in ((1, "one"), (2, "two")):
            of_cluster = folder / words
            of_cluster.mkdir()
            cluster = kind(of_cluster, workers)
            stack.callback(cluster.end)
            kinds[words] = cluster.at
        took: dict[str, list[tuple[float, float]]] = {one: [] for one in kinds}
        for how in kinds.values():
            taken(folder, "small.json", *embedder, *how)
        for one in islice(cycle(kinds), len(kinds) * asked.repeats):
            took[one].append(taken(folder, "m.json", *embedder, *kinds[one]))
    ratios = [one[0] / two[0] for one, two in zip(took["one"], took["two"], strict=True)]
    seconds, work = ({one: statistics.median(of[n] for of in took[one]) for one in kinds} for n in (0, 1))
    best, more = 2 * work["one"] / work["two"], (work["two"] - work["alone"]) / asked.haystacks
    print(f"{asked.engine}, {asked.haystacks} haystacks of {asked.sessions} sessions, {asked.wait:g} s a request")
    for one in kinds:
        print(f"{one}: {seconds[one]:.1f} s, processor time {work[one]:.1f} s")
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"two against one: {statistics.median(ratios):.2f}x ({each}); by processor time at best {best:.2f}x")
    print(f"what the cluster takes: {more:.2f} s of processor time per haystack")


if __name__ == "__main__":
    main()
