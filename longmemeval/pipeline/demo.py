"""Run the whole pipeline on the shipped sample, for `longmemeval demo`."""

import time

from msgspec import Struct

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.part_options import IndexEngine
from longmemeval.embedding.registry import DEFAULT_EMBEDDER
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.offline import PARROT
from longmemeval.memory.configuration import MEMORIES, reranker_of, resolve_configuration
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.evaluate.evaluate import evaluate
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.pipeline.prepare.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.sweep.file import control_pairs
from longmemeval.results.compared import baseline_first
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.judge_checks import controls_last
from longmemeval.settings import Folders

MODEL = "offline/extractive"
REPEATED = "hybrid"
"""The memory whose recall is repeated by a control."""
SHOWN = ("full-history", "last-k", "semantic-recall", "bm25", "hybrid", "engram-lean", "oracle")
"""Six memories and the ceiling; `offline/parrot` goes with them. All others only with `everything`."""


class DemoOutcome(Struct, frozen=True):
    """The results of the demo."""

    preparation: PrepareReport
    embedder: str
    evaluations: list[Evaluation]
    """One evaluation per preset, in their order, and one per control."""
    newly_answered: int
    seconds: float

    def comparison(self, folders: Folders) -> Comparison:
        """Compare the runs with the full history, which a memory has to beat, or match with fewer tokens."""
        runs = {evaluation.id: evaluation for evaluation in self.evaluations}
        ordered = [runs[run_id] for run_id in baseline_first(list(runs), folders.results_dir)]
        return compare_runs(controls_last(ordered, lambda run: run.summary.control), folders)


def run_demo(index: IndexEngine | None, folders: Folders, *, everything: bool = False) -> DemoOutcome:
    """Prepare, run and evaluate presets and controls on the sample; finished work is not repeated.

    The judge is checked before anything is graded, so that its error rates can be shown next to the scores.

    Args:
        index: the vector index, which preparation and runs are then named after; None: what `prepare` takes by itself.
        everything: every preset without a reranker and every control, not only those of `SHOWN` and the parrot.
    """
    started = time.perf_counter()
    dataset = load_dataset("sample", folders.data_dir)
    names = [name for name in MEMORIES.built_in if everything or name in SHOWN]
    configurations = [resolve_configuration(name) for name in names]
    # A reranker's model may not be on this machine.
    configurations = [configuration for configuration in configurations if not reranker_of(configuration)]
    name, suffix = (index, f"-{index}") if index else ("default", "")
    preparation = prepare(dataset, configurations, options=PrepareOptions(index=index, name=name), folders=folders)
    JudgeChecking(dataset, LEXICAL_JUDGE, folders=folders).check()
    planned = [(configuration.name, configuration, MODEL) for configuration in configurations]
    controls = control_pairs([resolve_configuration(REPEATED), *configurations], ())
    planned += [
        (model.partition("/")[2], configuration, model)
        for configuration, model in controls
        if everything or model == PARROT
    ]
    evaluations, new = [], 0
    for label, configuration, model in planned:
        run_id = f"demo-{label}{suffix}"
        report = run(dataset, configuration, model, options=RunOptions(run_id=run_id, prepared=name), folders=folders)
        new += report.newly_answered
        evaluations.append(evaluate(run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders))
    return DemoOutcome(preparation, DEFAULT_EMBEDDER, evaluations, new, time.perf_counter() - started)
