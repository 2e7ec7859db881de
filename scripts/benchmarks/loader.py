"""How much faster and smaller the loader is than `json.load`, on a file of the size of LongMemEval_S.

    python scripts/benchmarks/loader.py [--file FILE] [--records 500] [--repeats 3] [--processor]

The first record of FILE is written again and again under new question ids. LoCoMo's file, where it is at hand, is read
as it is. Each measurement runs in a fresh process; shown is the fastest of the repeats (with `--processor` by
processor time, for a machine with other work). Opening includes the imports it makes. Memory is the peak of the
process, the file pages mapped into it included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from longmemeval.benchmarks.registry import load_dataset

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
LOCOMO = REAL.with_name("locomo10.json")
SAMPLE = PROJECT / "data" / "sample" / "sample.json"


class Measurement(NamedTuple):
    seconds: float
    megabytes: float | None


def load_with_json(path: Path) -> object:
    with path.open() as handle:
        return json.load(handle)


def open_and_count(path: Path) -> object:
    dataset = load_dataset(path)
    len(dataset)
    return dataset


def decode_everything(path: Path) -> object:
    dataset = load_dataset(path)
    for _ in dataset.haystacks():
        pass
    for _ in dataset.questions():
        pass
    return dataset


WAYS: dict[str, Callable[[Path], object]] = {
    "json.load": load_with_json,
    "open and count": open_and_count,
    "decode everything": decode_everything,
}


def write_large_file(source: Path, records: int, path: Path) -> None:
    record = json.loads(source.read_text(encoding="utf-8"))[0]
    with path.open("w", encoding="utf-8") as handle:
        for number in range(records):
            record["question_id"] = f"question_{number}"
            handle.write(("[" if number == 0 else ", ") + json.dumps(record))
        handle.write("]")


def peak_megabytes() -> float | None:
    """Peak memory of this process, mapped file pages included; None where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = [line.split() for line in status.read_text().splitlines()]
    return next(int(fields[1]) for fields in lines if fields[0] == "VmHWM:") / 1024


def measure_here(way: str, path: Path, clock: Callable[[], float]) -> None:
    """Run one way in this process and print its measurement."""
    start = clock()
    kept = WAYS[way](path)
    seconds = clock() - start
    # What was loaded is still held: letting go of the mapping would take its pages out of the account.
    print(json.dumps(Measurement(seconds, peak_megabytes())))
    del kept


def measure(way: str, path: Path, *, processor: bool) -> Measurement:
    command = [sys.executable, __file__, "--measure", way, "--file", str(path), *["--processor"] * processor]
    # An installed package is compiled; what forbids that would be measured instead.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT, env=environment)
    return Measurement(*json.loads(done.stdout))


def compare(source: Path, records: int, repeats: int, *, processor: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        write_large_file(source, records, path)
        print(f"{records} records of {source.name}, {path.stat().st_size / 1e6:.0f} MB, fastest of {repeats}\n")
        compare_ways(path, repeats, processor=processor)


def compare_ways(path: Path, repeats: int, *, processor: bool) -> None:
    rounds = [{way: measure(way, path, processor=processor) for way in WAYS} for _ in range(repeats)]
    best = {way: min(measurements[way] for measurements in rounds) for way in WAYS}
    print(f"{'':20}{'seconds':>10}{'faster':>10}{'memory MB':>12}")
    for way, measurement in best.items():
        faster = best["json.load"].seconds / measurement.seconds
        memory = "?" if measurement.megabytes is None else f"{measurement.megabytes:.0f}"
        print(f"{way:20}{measurement.seconds:>10.3f}{f'{faster:.1f}x':>10}{memory:>12}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the loader with json.load.")
    parser.add_argument("--file", type=Path, default=REAL if REAL.exists() else SAMPLE)
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processor", action="store_true", help="measure processor time in place of time")
    parser.add_argument("--measure", choices=list(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure_here(arguments.measure, arguments.file, time.process_time if arguments.processor else time.perf_counter)
    else:
        compare(arguments.file, arguments.records, arguments.repeats, processor=arguments.processor)
        if LOCOMO.exists():
            print(f"\n{LOCOMO.name}, {LOCOMO.stat().st_size / 1e6:.1f} MB, fastest of {arguments.repeats}\n")
            compare_ways(LOCOMO, arguments.repeats, processor=arguments.processor)


if __name__ == "__main__":
    main()
