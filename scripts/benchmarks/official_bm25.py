"""How much faster the official retrieval protocol (BM25, sessions) runs here than as a plain script of its libraries.

    python scripts/benchmarks/official_bm25.py [--file FILE] [--records 50] [--repeats 3]

The first record of FILE is written again and again under new question ids. The script reads it with `json.load`, ranks
with rank-bm25 and scores with numpy, as the official code does. It is held against the same work here (reading,
ranking, scoring), imports left out on both sides; and, as a process from start to end, against the whole command
`longmemeval retrieval --protocol official`, which also checks and hashes the data, keeps a run folder and computes
intervals. Each measurement runs in a fresh process; shown is the fastest of the repeats. All give the same figures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# A process loads what its way needs and no more: loading counts where whole processes are compared.

CUTOFFS = (1, 3, 5, 10, 30, 50)
PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
Figures = dict[str, float]


class Measurement(NamedTuple):
    seconds: float
    figures: Figures


def gain(relevances: Sequence[int], k: int) -> float:
    kept = np.asarray(relevances, dtype=float)[:k]
    return float(kept[0] + np.sum(kept[1:] / np.log2(np.arange(2, kept.size + 1)))) if kept.size else 0.0


def session_documents(entry: dict[str, Any]) -> tuple[list[str], list[str]]:
    ids, texts = [], []
    for session_id, session in zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True):
        turns = [turn for turn in session if turn["role"] == "user"]
        labelled = any(turn.get("has_answer") for turn in turns)
        ids.append(session_id if labelled else session_id.replace("answer", "noans"))
        texts.append(" ".join(turn["content"] for turn in turns))
    return ids, texts


def plain_script(path: Path) -> Measurement:
    from rank_bm25 import BM25Okapi

    start = time.perf_counter()
    with path.open(encoding="utf-8") as handle:
        data = json.load(handle)
    values: dict[str, list[float]] = defaultdict(list)
    for entry in data:
        ids, texts = session_documents(entry)
        correct = {name for name in ids if "answer" in name}
        scores = BM25Okapi([text.split(" ") for text in texts]).get_scores(entry["question"].split(" "))
        order = np.argsort(scores, kind="stable")[::-1]
        relevances = [int(name in correct) for name in ids]
        for k in CUTOFFS:
            top = {ids[index] for index in order[:k]}
            values[f"recall_any@{k}"].append(float(any(name in top for name in correct)))
            values[f"recall_all@{k}"].append(float(all(name in top for name in correct)))
            ideal = gain(sorted(relevances, reverse=True), k)
            values[f"ndcg_any@{k}"].append(gain([relevances[index] for index in order], k) / ideal if ideal else 0.0)
    figures = {name: float(np.mean(one)) for name, one in values.items()}
    return Measurement(time.perf_counter() - start, figures)


def same_work(path: Path) -> Measurement:
    from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
    from longmemeval.benchmarks.longmemeval.official import bm25 as official_bm25
    from longmemeval.benchmarks.longmemeval.official.retrieval import OfficialRanking
    from longmemeval.benchmarks.longmemeval.official.scoring import official_metrics

    start = time.perf_counter()
    values: dict[str, list[float]] = defaultdict(list)
    dataset = LongMemEvalDataset(path)
    for record in dataset.user_side_records({question.question_id for question in dataset.questions()}):
        ranking = OfficialRanking(dataset, record, "session", official_bm25.scores)
        metrics = official_metrics([item.id for item in ranking.items()], "session")
        for name, value in metrics["session"].items():
            values[name].append(value)
    figures = {name: float(np.mean(one)) for name, one in values.items()}
    return Measurement(time.perf_counter() - start, figures)


WAYS: dict[str, Callable[[Path], Measurement]] = {"plain script": plain_script, "same work": same_work}


def in_process(way: str, path: Path) -> tuple[Measurement, float]:
    """What one way measures in a fresh process, and the seconds of the whole process."""
    output, seconds = timed([__file__, "--measure", way, "--file", str(path)])
    return Measurement(*json.loads(output)), seconds


def whole_command(path: Path) -> Measurement:
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--dataset", str(path), "--memory", "bm25", "--protocol", "official", "--granularity", "session"]
        command = ["-m", "longmemeval", "retrieval", *arguments, "--results-dir", folder, "--prepared-dir", folder]
        output, seconds = timed([*command, "--json"])
    answerable = json.loads(output)["results"][1]["measures"]
    return Measurement(seconds, {name.replace("_official", "_any"): mean for name, mean in answerable.items()})


def timed(arguments: list[str]) -> tuple[str, float]:
    """What a Python process prints, and its seconds from start to end."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=PROJECT)
    return done.stdout, time.perf_counter() - start


def compare(source: Path, records: int, repeats: int) -> None:
    from loader import write_large_file

    seconds: dict[str, list[float]] = defaultdict(list)
    figures: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        write_large_file(source, records, path)
        for _ in range(repeats):
            for way in WAYS:
                measured, process = in_process(way, path)
                seconds[way].append(measured.seconds)
                seconds[f"{way}, whole process"].append(process)
                figures.append(measured.figures)
            command = whole_command(path)
            seconds["whole command"].append(command.seconds)
            figures.append(command.figures)
    if any(one != figures[0] for one in figures):
        sys.exit("The ways do not give the same figures")
    best = {way: min(measured) for way, measured in seconds.items()}
    print(f"{records} questions of {source.name}, fastest of {repeats}\n")
    for plain, others in (("plain script", "same work"), ("plain script, whole process", "whole command")):
        for way in (plain, others):
            print(f"{way:30}{best[way]:>10.3f} s{best[plain] / best[way]:>8.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the official protocol with a plain script.")
    parser.add_argument("--file", type=Path, default=REAL if REAL.exists() else SAMPLE)
    parser.add_argument("--records", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=list(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(WAYS[arguments.measure](arguments.file)))
    else:
        compare(arguments.file, arguments.records, arguments.repeats)


if __name__ == "__main__":
    main()
