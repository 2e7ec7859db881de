"""The verbs of the command line for Python users; `run` and `evaluate` stand with the objects they return."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from longmemeval.api.data import Data, Memory, as_data, as_memory
from longmemeval.api.run import Run, in_process
from longmemeval.benchmarks.conversations import importing
from longmemeval.core.arguments import checked
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline import board
from longmemeval.pipeline import demo as demonstration
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.compare.verdict import MARGIN
from longmemeval.pipeline.evaluate import bridging
from longmemeval.pipeline.inspect import inspect as inspecting
from longmemeval.pipeline.judge_check import check as checking
from longmemeval.pipeline.options import EvaluateOptions, PrepareOptions, RetrievalOptions
from longmemeval.pipeline.prepare import prepare as preparing
from longmemeval.pipeline.probe import probe as probing
from longmemeval.pipeline.retrieval import retrieve as retrieving
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.pipeline.verify import verify as signing
from longmemeval.pipeline.verify import verify as verifying
from longmemeval.pipeline.verify.signature import Signature
from longmemeval.results.formats.harness_files import ImportFormat, import_harness
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.options import ExportFormat
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
) -> preparing.PrepareReport:
    """Ingest the histories of a dataset for memories; existing fixtures are skipped. `run` calls this itself.

    Args:
        data: a dataset, or an argument of `load_dataset`.
        memories: the memories to prepare for.
        options: embedder, index, workers and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: an option is invalid, or the preparation was made from other data or with another recipe.
        SpendingLimitError, EndpointDownError: preparing stopped early; finished fixtures are saved.
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
    """Rank the history of every question with each memory and score the rankings, without answering questions.

    Args:
        data: a dataset, or an argument of `load_dataset`.
        memories: prepared memories (see `prepare`).
        options: protocol, level, measures and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: an argument is invalid, fixtures are missing or damaged, or the run id has other settings.
        SpendingLimitError, EndpointDownError: ranking stopped early; finished rankings are saved.
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
) -> probing.ProbeReport:
    """Test memories on synthetic user histories, with a control that must fail and one that must pass.

    Args:
        memories: as for `run`.
        seed: the same seed gives the same histories.
        lives: number of histories of each length.
        sessions: lengths of the histories, 10 to 1,000 sessions.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: an argument is invalid, or a memory cannot be prepared or queried.
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
    audits: Sequence[str] = (),
    folders: Folders | None = None,
) -> Comparison:
    """Compare graded runs over the same questions.

    Args:
        runs: one or more runs, in the order of display; the first that does not read the gold evidence is the
            baseline.
        judge: id of the judge, a prefix of it, or its model; None: the judge of the evaluations passed, else the
            official judge, else the newest.
        common: compare on the questions that all runs share, if they answered different ones.
        dataset: the current location of the data, if it has moved.
        margin: equivalence margin: a run is equivalent to the baseline if the CI of their difference is inside it.
        pairs: base verdict and marks on the tests of all pairs instead of those with the baseline.
        audits: names or JSON files of audits of the gold labels: scores and differences without these labels too.
        folders: the folders; None: those of the first run.

    Raises:
        HarnessError: a run does not exist or is not graded, or runs differ in data, questions, judge or metric.
    """
    if not runs:
        raise HarnessError("No runs to compare", fix="Write compare(evaluation, another)")
    from longmemeval.pipeline.compare.compare import compare_runs
    from longmemeval.results.graded.judge_checks import controls_last

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
    return compare_runs(
        graded, place, common=common, margin=margin, family="pairs" if pairs else "baseline", audits=audits
    )


@checked()
def demo(*, everything: bool = False, folders: Folders | None = None) -> list[Evaluation]:
    """Run the full pipeline on the bundled sample, offline; finished work is not repeated.

    Args:
        everything: include every memory configuration and control.
        folders: the folders; None: from the environment.
    """
    return demonstration.run_demo(None, folders or Folders(), everything=everything).evaluations


@checked()
def download_dataset(name: str, *, folders: Folders | None = None) -> Path:
    """Download a dataset of the catalogue, check its hash and return its path; an existing file is only checked.

    Raises:
        HarnessError: the dataset is unknown, cannot be downloaded, or has another hash.
    """
    from longmemeval.benchmarks.catalogue import catalogue_entry
    from longmemeval.benchmarks.download import download

    return download(catalogue_entry(name), (folders or Folders()).data_dir)


@checked()
def import_chats(
    *exports: str | Path, output: str | Path, questions: str | Path | None = None
) -> importing.ImportedChats:
    """Make a dataset folder from exported conversations; see `longmemeval datasets import`.

    Raises:
        DataError: an export or a question cannot be read; names file, record and field.
    """
    return importing.import_chats(
        [Path(path) for path in exports], Path(output), questions=Path(questions) if questions else None
    )


@checked()
def inspect(
    data: Data | Dataset | str | Path,
    identifier: str,
    *memories: Memory | type | str,
    prepared: str = "default",
    folders: Folders | None = None,
) -> inspecting.Inspection:
    """Return one question or haystack, and what memories retrieve for it.

    Args:
        data: a dataset, or an argument of `load_dataset`.
        identifier: id of a question or haystack.
        memories: prepared memories.
        prepared: name of the preparation.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the question or haystack is unknown or not prepared.
    """
    used = [as_memory(memory).configuration for memory in memories]
    return inspecting.inspect(
        as_data(data).dataset, identifier, used, preparation=prepared, folders=folders or Folders()
    )


@checked()
def verify(
    run: Run | Evaluation | str, *, public_key: Path | None = None, folders: Folders | None = None
) -> verifying.Verification:
    """Check all hashes of a run and recompute all scores from its files.

    Args:
        run: a run, its id, or a preparation as `DATASET/PREPARATION`.
        public_key: public key of the signer.
        folders: the folders; None: those of the run.

    Raises:
        HarnessError: the run is unknown.
    """
    return verifying.verify(_id(run), public_key=public_key, folders=_folders_of(run, folders))


@checked()
def sign(run: Run | Evaluation | str, key: Path, *, folders: Folders | None = None) -> Signature:
    """Sign all files of a run with an Ed25519 private key (PEM, OpenSSH).

    Raises:
        HarnessError: the run or key does not exist, or the extra `sign` is not installed.
    """
    return signing.sign(_id(run), key, folders=_folders_of(run, folders) or Folders())


@checked()
def merge(*runs: Run | str, name: str | None = None, folders: Folders | None = None) -> Run:
    """Merge the runs of all shards into one run; the shards stay as they are.

    Raises:
        HarnessError: a shard is missing, or they differ in more than their questions.
    """
    from longmemeval.pipeline.merge import merge as merging

    place = folders or Folders()
    return Run(merging.merge([_id(run) for run in runs], run_id=name, folders=place).run_id, place)


@checked()
def export(
    run: Run | Evaluation | str,
    format: ExportFormat = "csv",
    *,
    output: Path | None = None,
    folders: Folders | None = None,
) -> Path:
    """Write a run in a format for other tools, and return the folder of its files.

    Args:
        run: a graded run; for `trec`, a run of rankings.
        format: `csv`, `jsonl` or `parquet`, one row per question; `trec`, run and qrels; `official`, as the authors do;
            `inspect` or `inspect-json`, a log of Inspect.
        output: a folder; None: the run's own.
        folders: the folders; None: those of the run.

    Raises:
        HarnessError: the run is unknown, or lacks what the format needs.
    """
    from longmemeval.results.formats.export import export_runs

    place = _folders_of(run, folders) or Folders()
    list(export_runs([_id(run)], format, output, folders=place))
    return output or place.results_dir / _id(run)


@checked()
def import_answers(
    file: Path,
    data: Data | Dataset | str | Path,
    format: ImportFormat = "official",
    *,
    cutoff: str | None = None,
    name: str | None = None,
    folders: Folders | None = None,
) -> Run:
    """Import answers from another system.

    Args:
        file: JSONL of `{"question_id", "hypothesis"}`, a judged log, or the result file of another harness.
        data: the questions.
        format: the tool that wrote it; `official` is the first two.
        cutoff: the cutoff to import, such as `top_50`, if a harness has results at several cutoffs.
        name: the id of the run; None: made from the file's name and a hash.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the file cannot be read, has another format, or answers other questions.
    """
    from longmemeval.results.formats.hypotheses import import_official

    place, chosen = folders or Folders(), as_data(data).dataset
    if format == "official":
        return Run(import_official(file, chosen, run_id=name, folders=place).run_id, place)
    return Run(import_harness(file, chosen, format, cutoff=cutoff, run_id=name, folders=place).run_id, place)


@checked()
def check_judge(
    data: Data | Dataset | str | Path, judge: str | None = None, *, folders: Folders | None = None
) -> checking.CheckOutcome:
    """Measure the error rates of a judge on test answers with known labels; later scores are corrected by them.

    Args:
        data: the dataset whose questions the test answers are about.
        judge: as for `evaluate`; None: the benchmark's own.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the benchmark does not define test answers, or the judge is unknown.
    """
    chosen = as_data(data)
    return checking.JudgeChecking(chosen.dataset, judge, selection=chosen.selection, folders=folders).check()


@checked(runs="bridge_judges('gpt-4o-2024-08-06', 'gpt-4.1', 'one-run', 'another'), without a list")
def bridge_judges(
    old: str,
    new: str,
    *runs: Run | Evaluation | str,
    options: EvaluateOptions = EvaluateOptions(),
    folders: Folders | None = None,
) -> bridging.MadeBridge:
    """Compare two judges on the same answers, grading what is missing, and store the bridge among the results.

    Args:
        old: a judge as for `evaluate`, or the id of one that has graded the runs.
        new: the judge that replaces it.
        runs: runs over the same questions.
        options: options of grading, for both judges.
        folders: the folders; None: those of the first run.

    Raises:
        HarnessError: a run or judge is unknown, or the runs differ in data or questions, or the judges in metric.
    """
    if not runs:
        raise HarnessError("No runs to bridge the judges with", fix="Write bridge_judges(old, new, 'one-run')")
    place = _folders_of(runs[0], folders)
    return bridging.bridge_judges(old, new, [_id(run) for run in runs], options=options, folders=place)


@checked()
def make_board(*folders_of_runs: Path, folders: Folders | None = None) -> board.MadeBoard:
    """Build a leaderboard: verify the runs below folders and rank those that pass.

    Raises:
        HarnessError: the folders contain no run.
    """
    return board.make_board(folders_of_runs, folders=folders)


def _memories(verb: str, memories: Sequence[Memory | type | str]) -> list[Memory]:
    if not memories:
        data = "" if verb == "probe" else "data, "
        raise HarnessError(f"{verb}() needs a memory", fix=f"Write {verb}({data}'bm25', Memory('hybrid', top_k=20))")
    return [as_memory(memory) for memory in memories]


def _id(run: Run | Evaluation | str) -> str:
    return run if isinstance(run, str) else run.id


def _folders_of(run: Run | Evaluation | str, folders: Folders | None) -> Folders | None:
    return folders or (None if isinstance(run, str) else run.folders)
