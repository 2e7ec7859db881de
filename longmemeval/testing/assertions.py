"""The assertions themselves: plain AssertionErrors, with the figures that pytest then shows."""

from pathlib import Path
from tempfile import TemporaryDirectory

from longmemeval.api.data import Data, Memory, as_data, as_memory
from longmemeval.api.run import Run
from longmemeval.api.verbs import prepare, retrieve
from longmemeval.core.arguments import checked
from longmemeval.core.text.figures import points, signed, signed_bounds
from longmemeval.dataset import Dataset
from longmemeval.pipeline.compare.baseline import compare_to_baseline, load_baseline
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.settings import Folders


@checked()
def assert_recall(
    memory: Memory | type | str,
    data: Data | Dataset | str | Path,
    *,
    at: int = 10,
    least: float = 0.8,
    folders: Folders | None = None,
) -> None:
    """Assert that a memory finds enough of the evidence. Missing parts are prepared; no model answers.

    Args:
        memory: a `Memory`, a class, or a spec as `--memory` takes it.
        data: a `Dataset`, or a spec as `load_dataset` takes it.
        at: number of best hits that count.
        least: the lowest mean share of a question's evidence among them that passes, between 0 and 1.
        folders: None: the default folders. The rankings are not kept.

    Raises:
        AssertionError: the memory finds less, or does not say which messages it found.
        HarnessError: an argument is not valid.
    """
    chosen, used = as_data(data), as_memory(memory)
    place = folders or Folders()
    prepare(chosen, used, folders=place)
    with TemporaryDirectory() as scratch:
        options = RetrievalOptions(measures=(f"recall@{at}",), run_id="asserted")
        there = place.model_copy(update={"results_dir": Path(scratch)})
        (ranked,) = retrieve(chosen, used, options=options, folders=there).runs
    found = [(result, mean) for result in ranked.results for mean in result.measures.values()]
    known = [(result, mean) for result, mean in found if mean.mean is not None]
    if not known:
        raise AssertionError(
            f"{used.name}: recall@{at} is not known: it does not say which messages or sessions its hits come from"
        )
    result, mean = known[0]
    if mean.mean is not None and mean.mean < least:
        types = (
            f"{kind} {typed.mean:.1%}"
            for kind, by_measure in result.by_type.items()
            for typed in by_measure.values()
            if typed.mean is not None
        )
        raise AssertionError(
            f"{used.name}: recall@{at} of {result.gold_rule} is {mean.mean:.1%}, expected at least {least:.1%} "
            f"({mean.n} questions of {chosen.name}; {', '.join(types)})"
        )


@checked()
def assert_no_regression(
    run: Evaluation | Run | str,
    baseline: Evaluation | Run | str | Path,
    *,
    margin: float = 0.03,
    undecided_passes: bool = False,
    folders: Folders | None = None,
) -> None:
    """Assert that a graded run is not worse than a baseline by more than a margin.

    It passes if the 95% CI of the difference lies above `-margin`. If the interval reaches below, the data
    cannot tell, and that fails too.

    Args:
        run: a graded run, or its id.
        baseline: a graded run, its id, or a file that `compare --save-baseline` wrote.
        margin: how much worse it may be, between 0 and 1.
        undecided_passes: also pass if the data cannot decide.
        folders: None: those of the run.

    Raises:
        AssertionError: the run is worse, or the data cannot decide.
        HarnessError: one of them is not graded, or they differ in data, questions or judges.
    """
    place = folders or (Folders() if isinstance(run, str) else run.folders)
    graded = _graded(run, place, None)
    judge = graded.metrics.judge.id
    named = str(baseline) if isinstance(baseline, str | Path) else _graded(baseline, place, judge).id
    comparison = compare_to_baseline(graded, load_baseline(named, place, judge=judge), margin=margin)
    summary = (
        f"{comparison.run} vs. {comparison.baseline}: {signed(comparison.difference)} points, 95% CI "
        f"{signed_bounds(comparison.interval)}, margin {points(margin)}"
    )
    if comparison.worse:
        raise AssertionError(f"Worse: {summary}; lost {', '.join(comparison.lost[:10])}")
    if comparison.interval[0] < -margin and not undecided_passes:
        raise AssertionError(
            f"Undecided: {summary}; {len(graded.credits)} questions are too few to decide. Take more, a wider margin, "
            "or undecided_passes=True"
        )


def _graded(run: Evaluation | Run | str, folders: Folders, judge: str | None) -> Evaluation:
    if isinstance(run, Evaluation):
        return run
    (graded,) = load_graded([run if isinstance(run, str) else run.id], folders, judge=judge)
    return graded
