"""The other verbs for Python users: prepare, retrieve, probe, compare."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from longmemeval.core.arguments import checked
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.compare.verdict import MARGIN
from longmemeval.pipeline.objects.data import Data, as_data
from longmemeval.pipeline.objects.memory import Memory, as_memory
from longmemeval.pipeline.objects.run import Run
from longmemeval.pipeline.objects.running import in_process
from longmemeval.pipeline.prepare import prepare as preparing
from longmemeval.pipeline.prepare.options import PrepareOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport
from longmemeval.pipeline.probe import probe as probing
from longmemeval.pipeline.probe.probe import ProbeReport
from longmemeval.pipeline.retrieval import retrieve as retrieving
from longmemeval.pipeline.retrieval.options import RetrievalOptions
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.results.graded.controls import controls_last
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.settings import Folders


@checked(
    selection="prepare(data.sample(50), 'bm25')",
    dataset="prepare(data, 'bm25')",
    configurations="prepare(data, 'bm25', 'hybrid')",
    memories="prepare(data, 'bm25', Memory('hybrid', top_k=20)), one after the other, without a list",
)
def prepare(
    data: Data | Dataset | str | Path,
    *memories: Memory | type | str,
    options: PrepareOptions = PrepareOptions(),
    folders: Folders | None = None,
) -> PrepareReport:
    """Make the fixtures that memories need; add what is missing, skip what exists. `run` does so by itself.

    Args:
        data: a data set, or an argument of `load_dataset`.
        memories: the memories to prepare for.
        options: embedder, index, workers and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad options, or a preparation made from other data or by another recipe.
        SpendingLimitError, EndpointDownError: the rest has to wait; finished fixtures are kept.
    """
    chosen, used = as_data(data), _memories("prepare", memories)
    configurations = [memory.configuration for memory in used]
    making = in_process(options, used)
    return preparing.prepare(
        chosen.dataset, configurations, selection=chosen.selection, options=making, folders=folders
    )


@checked(
    selection="retrieve(data.sample(50), 'bm25')",
    dataset="retrieve(data, 'bm25')",
    configurations="retrieve(data, 'bm25', 'hybrid')",
    memories="retrieve(data, 'bm25', Memory('hybrid', top_k=20)), one after the other, without a list",
)
def retrieve(
    data: Data | Dataset | str | Path,
    *memories: Memory | type | str,
    options: RetrievalOptions = RetrievalOptions(),
    folders: Folders | None = None,
) -> RetrievalReport:
    """Rank every chosen question's history by each memory and score the rankings; no question is answered.

    Args:
        data: a data set, or an argument of `load_dataset`.
        memories: prepared memories (see `prepare`).
        options: protocol, level, measures and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, missing or damaged fixtures, or a run id whose settings differ.
        SpendingLimitError, EndpointDownError: the rest has to wait; finished rankings are kept.
    """
    chosen, used = as_data(data), _memories("retrieve", memories)
    configurations = [memory.configuration for memory in used]
    if any(memory.in_process for memory in used):
        options = structs.replace(options, jobs=1)
    return retrieving.retrieve(
        chosen.dataset, configurations, selection=chosen.selection, options=options, folders=folders
    )


@checked()
def probe(
    *memories: Memory | type | str,
    seed: int,
    lives: int = 5,
    sessions: tuple[int, ...] = (10, 100),
    folders: Folders | None = None,
) -> ProbeReport:
    """Try memories on made-up lives, next to a control that cannot pass and one that must; see `longmemeval probe`.

    Args:
        memories: as for `run`.
        seed: decides the lives: the same seed makes the same.
        lives: number of lives of each length.
        sessions: lengths of the lives, 10 to 1,000 sessions.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, or a memory that cannot be prepared or queried.
    """
    used = _memories("probe", memories)
    making = in_process(PrepareOptions(), used)
    configurations = [memory.configuration for memory in used]
    return probing.probe(configurations, seed=seed, lives=lives, sessions=sessions, options=making, folders=folders)


@checked(
    run_ids="compare('one-run', 'another'), one after the other, without a list",
    runs="compare('one-run', 'another'), one after the other, without a list",
)
def compare(
    *runs: Evaluation | Run | str,
    judge: str | None = None,
    common: bool = False,
    dataset: str | None = None,
    margin: float = MARGIN,
    pairs: bool = False,
    folders: Folders | None = None,
) -> Comparison:
    """Compare graded runs over the same questions.

    Args:
        runs: one or more runs, in the order of display; the first that does not read the gold evidence is the baseline
            of marks and verdict.
        judge: id of the judge, a beginning of it or its model; None: that of the evaluations passed, else the official
            judge's scores if there are any, else the newest.
        common: compare on the questions that all runs share, if they answered different ones.
        dataset: the present location of the data, if it has moved.
        margin: of the verdict: a run is equivalent to the baseline if the interval of their difference is inside it.
        pairs: draw verdict and marks from the tests of all pairs instead of those with the baseline.
        folders: the folders; None: those of the first run.

    Raises:
        HarnessError: no such run, it is not graded, or the runs are of different data, questions, judges or metrics.
    """
    if not runs:
        raise HarnessError("compare() has nothing to compare", fix="Write compare(evaluation, another)")
    known = [candidate.folders for candidate in runs if not isinstance(candidate, str)]
    place = folders or (known[0] if known else Folders())
    graded = []
    for run in runs:
        if isinstance(run, Evaluation) and judge is None and dataset is None:
            graded.append(run)
        else:
            run_id = run if isinstance(run, str) else run.id
            graded += load_graded([run_id], place, judge=judge, dataset=dataset)
    first = next((run for run in graded if not run.summary.reads_gold), graded[0])
    graded = controls_last([first, *(run for run in graded if run is not first)], lambda run: run.summary.control)
    return compare_runs(graded, place, common=common, margin=margin, family="pairs" if pairs else "baseline")


def _memories(verb: str, memories: Sequence[Memory | type | str]) -> list[Memory]:
    if not memories:
        data = "" if verb == "probe" else "data, "
        raise HarnessError(f"{verb}() needs a memory", fix=f"Write {verb}({data}'bm25', Memory('hybrid', top_k=20))")
    return [as_memory(memory) for memory in memories]
