"""Fixtures in a store of S3's kind on the loopback that takes its time, with and without read-ahead; and compressed.

    python scripts/benchmarks/storage.py [--latency 0.05] [--embedder fastembed:DIR] [--data FILE]

Needs the extras dev, s3 and zstd.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from longmemeval import settings
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.storage import read_ahead
from longmemeval.storage.part_files import compressed, decompressed
from tests.s3_server import S3Server


def answering(server: S3Server, data: str, latency: float) -> None:
    """Print what a run takes on a machine that has no copies, three times each way, in turns."""
    dataset = load_dataset(data, Path("data"))
    folders = settings.folders(prepared_dir=server.address)
    prepare(dataset, ["hybrid"], options=PrepareOptions(jobs=1), folders=folders)
    server.before = lambda asked: time.sleep(latency)
    ahead, number = read_ahead.AHEAD, 0
    for _ in range(3):
        seconds = []
        for fixtures in (0, ahead):
            number += 1
            read_ahead.AHEAD = fixtures
            os.environ["LONGMEMEVAL_REMOTE_CACHE_DIR"] = f"machine{number}"
            folders = settings.folders(prepared_dir=server.address)
            report = run(
                dataset, "hybrid", "offline/extractive", options=RunOptions(run_id=f"r{number}"), folders=folders
            )
            seconds.append(report.seconds)
        without, with_it = seconds
        print(f"{report.answered} questions: {without:.1f} s without read-ahead, {with_it:.1f} s with it")


def sizes(data: str, embedder: str) -> None:
    """Print the parts of a data set's fixtures, plain and compressed."""
    options = PrepareOptions(jobs=1, embedder=embedder)
    prepare(
        load_dataset(data, Path("data")), ["hybrid"], options=options, folders=settings.folders(prepared_dir="plain")
    )
    for name in ("db", "vector", "words"):
        parts = [path.read_bytes() for path in Path("plain").glob(f"*/default/*/{name}.json")]
        started = time.perf_counter()
        packed = [compressed(part) for part in parts]
        middle = time.perf_counter()
        for part in packed:
            decompressed(part)
        ended = time.perf_counter()
        plain, small = sum(map(len, parts)), sum(map(len, packed))
        there, back = (1e3 * seconds / len(parts) for seconds in (middle - started, ended - middle))
        print(f"{name}: {plain / 1e6:.2f} MB, compressed {small / 1e6:.2f} MB; {there:.1f} ms, and {back:.1f} ms back")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.05, help="seconds that each request waits")
    parser.add_argument("--embedder", default="hashing")
    parser.add_argument("--data", default="sample")
    arguments = parser.parse_args()
    server = S3Server()
    os.environ |= server.environment
    data = arguments.data if arguments.data == "sample" else str(Path(arguments.data).resolve())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        answering(server, "sample", arguments.latency)
        sizes(data, arguments.embedder)
        os.chdir("/")


if __name__ == "__main__":
    main()
