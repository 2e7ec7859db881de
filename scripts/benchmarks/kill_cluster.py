"""A `prepare` over Dask whose command or one of whose three workers is killed, twenty times in all, at random moments.

Each time the same command is given again, or goes on with the workers that are left and a new one; whenever it ends,
its files are compared with those that one process makes, and it begins anew.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.executors.clusters import DaskCluster, made

PREPARE = ("prepare", "--dataset", "sample", "--memory", "hybrid", "--memory", "full-history")


def longmemeval(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The command, under way."""
    command = [sys.executable, "-m", "longmemeval", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: "subprocess.Popen[str]") -> None:
    """Wait for its success."""
    printed, _ = process.communicate()
    if process.returncode:
        sys.exit(f"exit code {process.returncode}\n{printed}")


def finished(folder: Path) -> int:
    """How many fixtures are there."""
    return len(list(folder.glob("prepared-data/sample/default/*/meta.json")))


def main() -> None:
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        here, there, of_cluster = (Path(name) / one for one in ("here", "there", "cluster"))
        for folder in (here, there, of_cluster):
            folder.mkdir()
        ended(longmemeval(here, *PREPARE, "--jobs", "1"))
        wanted, haystacks = made(here), finished(here)
        cluster = DaskCluster(of_cluster)
        started, kills, preparations = time.perf_counter(), {"command": 0, "worker": 0}, 0
        try:
            while sum(kills.values()) < given.kills or finished(there):
                command = longmemeval(there, *PREPARE, *cluster.at)
                if sum(kills.values()) < given.kills:  # One that comes too late does not count.
                    moment = finished(there) + chance.randint(0, haystacks // 2)
                    while command.poll() is None and finished(there) < moment:
                        time.sleep(0.001)
                    time.sleep(chance.random() / 50)
                    if chance.random() < 0.5:
                        command.send_signal(signal.SIGKILL)
                        command.communicate()
                        kills["command"] += command.returncode == -signal.SIGKILL
                        if command.returncode:
                            continue
                    elif command.poll() is None:
                        cluster.replace(chance.randrange(cluster.workers))
                        kills["worker"] += 1
                ended(command)
                if made(there) != wanted:
                    sys.exit("DIFFERENT from what one process makes")
                preparations += 1
                shutil.rmtree(there / "prepared-data")
        finally:
            cluster.end()
        killed = ", ".join(f"{number} of a {what}" for what, number in kills.items())
        seconds = time.perf_counter() - started
        print(f"{killed}: {preparations} preparations of {haystacks} haystacks, all equal ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
