"""How long `compare` takes for 20 runs of 500 questions, against a bootstrap of every pair by scipy.

    python scripts/benchmarks/compare.py [--runs 20] [--questions 500] [--scores]

One offline run over small haystacks is prepared, answered and graded; the others are its copies with labels of their
own from a fixed generator, or with --scores with scores that hardly ever repeat, as an F1 gives them. Timed in this
process, libraries loaded: reading the graded runs and comparing all pairs. Held against it: `scipy.stats.bootstrap` of
the paired difference, which draws question by question, as often (10,000 times) for each pair. It is measured on some
pairs and multiplied up; it reads no files and tests nothing.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from scipy import stats

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.run import RunOptions, run
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_metrics
from longmemeval.settings import Folders
from longmemeval.statistics.resampling import RESAMPLES

MEASURED_PAIRS = 5


def record(number: int) -> dict[str, object]:
    turns = [{"role": "user", "content": f"My bicycle number {number} is green.", "has_answer": True}]
    return {
        "question_id": f"q{number}",
        "question_type": ("single-session-user", "multi-session", "temporal-reasoning")[number % 3],
        "question": f"What colour is bicycle number {number}?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "answer": "green",
        "answer_session_ids": ["answer_1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": ["answer_1"],
        "haystack_sessions": [turns],
    }


@dataclass(frozen=True)
class GradedRuns:
    """Folders with graded runs."""

    folders: Folders
    run_ids: list[str]


def make_runs(folder: Path, runs: int, questions: int, *, scores: bool = False) -> GradedRuns:
    folders = Folders(data_dir=folder, prepared_dir=folder / "prepared", results_dir=folder / "results")
    path = folder / "small.json"
    path.write_text(json.dumps([record(number) for number in range(questions)]))
    dataset = LongMemEvalDataset(path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    run(
        dataset, "last-k", "offline/extractive", options=RunOptions(run_id="run-0", save_prompts=False), folders=folders
    )
    first = evaluate("run-0", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    run_ids = [f"run-{number}" for number in range(runs)]
    generator = np.random.default_rng(0)
    for run_id in run_ids:
        target = folders.results_dir / run_id
        if run_id != "run-0":
            shutil.copytree(folders.results_dir / "run-0", target)
        manifest = msgspec.structs.replace(first.manifest, run_id=run_id)
        (target / "run.json").write_bytes(msgspec.json.encode(manifest))
        relabel(target / "judgements" / f"{first.metrics.judge.id}.jsonl", generator, scores=scores)
        write_metrics(folders.results_dir, RunFiles(target), RunQuestions(manifest, dataset), first.metrics.judge)
    return GradedRuns(folders, run_ids)


def relabel(path: Path, generator: np.random.Generator, *, scores: bool) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if scores:
        values = generator.random(len(lines)) ** generator.uniform(0.5, 2)
        changes = [{"label": False, "score": float(value)} for value in values]
    else:
        labels = generator.random(len(lines)) < generator.uniform(0.4, 0.7)
        changes = [{"label": bool(label)} for label in labels]
    changed = [json.dumps(line | change) for line, change in zip(lines, changes, strict=True)]
    path.write_text("\n".join(changed) + "\n")


def by_scipy(comparison: Comparison) -> float:
    """Seconds for all pairs, from those that are measured."""
    credits = np.array([[credit or 0.0 for credit in row.credits] for row in comparison.questions])
    measured = [
        seconds_of(
            lambda a=a, b=b: stats.bootstrap(
                (credits[:, a] - credits[:, b],), np.mean, n_resamples=RESAMPLES, method="percentile", rng=0
            )
        )
        for a, b in zip(range(MEASURED_PAIRS), range(1, MEASURED_PAIRS + 1), strict=True)
    ]
    return statistics.mean(measured) * len(comparison.pairs)


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description="Time compare on many runs.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--scores", action="store_true", help="scores in place of labels")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = make_runs(Path(folder), arguments.runs, arguments.questions, scores=arguments.scores)

        def reading() -> object:
            return load_graded(made.run_ids, made.folders)

        graded = load_graded(made.run_ids, made.folders)
        comparison = compare_runs(graded, made.folders)
        read = min(seconds_of(reading) for _ in range(3))
        compared = min(seconds_of(lambda: compare_runs(graded, made.folders)) for _ in range(3))
    other = by_scipy(comparison)
    print(f"{arguments.runs} runs of {arguments.questions} questions, {len(comparison.pairs)} pairs, fastest of 3\n")
    print(f"reading the runs     {read:8.2f} s")
    print(f"comparing them       {compared:8.2f} s")
    print(f"bootstrap by scipy   {other:8.2f} s, {other / (read + compared):.1f} times as long as both together")


if __name__ == "__main__":
    main()
