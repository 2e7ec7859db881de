"""The verbs that inspect, verify, sign, merge and export runs, with the arguments of the command line."""

from pathlib import Path

from longmemeval.benchmarks.catalogue import catalogue_entry
from longmemeval.benchmarks.conversations.importing import ImportedChats
from longmemeval.benchmarks.conversations.importing import import_chats as make_of_chats
from longmemeval.benchmarks.download import download
from longmemeval.core.arguments import checked
from longmemeval.dataset import Dataset
from longmemeval.pipeline import demo as demonstration
from longmemeval.pipeline.board import board
from longmemeval.pipeline.inspect import inspect as inspecting
from longmemeval.pipeline.inspect.inspect import Inspection
from longmemeval.pipeline.judge_check.check import CheckOutcome, JudgeChecking
from longmemeval.pipeline.merge import merge as merging
from longmemeval.pipeline.objects.data import Data, as_data
from longmemeval.pipeline.objects.memory import Memory, as_memory
from longmemeval.pipeline.objects.run import Run
from longmemeval.pipeline.verify import sign as signing
from longmemeval.pipeline.verify import verify as verifying
from longmemeval.pipeline.verify.signature import Signature
from longmemeval.pipeline.verify.verify import Verification
from longmemeval.results.formats.export import export_runs
from longmemeval.results.formats.harness_files import ImportFormat
from longmemeval.results.formats.import_harness import import_harness
from longmemeval.results.formats.official_logs import import_official
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.options import ExportFormat
from longmemeval.settings import Folders


@checked()
def demo(*, everything: bool = False, folders: Folders | None = None) -> list[Evaluation]:
    """Run the whole pipeline on the shipped sample, offline; finished work is not repeated.

    Args:
        everything: every memory configuration and control.
        folders: the folders; None: from the environment.
    """
    return demonstration.run_demo("hnsw", folders or Folders(), everything=everything).evaluations


@checked()
def download_dataset(name: str, *, folders: Folders | None = None) -> Path:
    """Download a data set of the catalogue, check its hash and return its path; if it exists, only check it.

    Raises:
        HarnessError: there is no such data set, it cannot be reached, or its hash is wrong.
    """
    return download(catalogue_entry(name), (folders or Folders()).data_dir)


@checked()
def import_chats(*exports: str | Path, output: str | Path, questions: str | Path | None = None) -> ImportedChats:
    """Make a data set, a folder, from exported conversations; see `longmemeval datasets import`.

    Raises:
        DataError: an export or a question cannot be read; names file, record and field.
    """
    return make_of_chats(
        [Path(path) for path in exports], Path(output), questions=Path(questions) if questions else None
    )


@checked()
def inspect(
    data: Data | Dataset | str | Path,
    identifier: str,
    *memories: Memory | type | str,
    prepared: str = "default",
    folders: Folders | None = None,
) -> Inspection:
    """Look at one question or haystack, and at what memories recall for it.

    Args:
        data: a data set, or an argument of `load_dataset`.
        identifier: id of a question or haystack.
        memories: prepared memories.
        prepared: name of the preparation.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such question or haystack, or it is not prepared.
    """
    used = [as_memory(memory).configuration for memory in memories]
    return inspecting.inspect(
        as_data(data).dataset, identifier, used, preparation=prepared, folders=folders or Folders()
    )


@checked()
def verify(
    run: Run | Evaluation | str, *, public_key: Path | None = None, folders: Folders | None = None
) -> Verification:
    """Check all hashes of a run, and recompute every number from its files.

    Args:
        run: a run, its id, or a preparation as `DATASET/PREPARATION`.
        public_key: public key of the signer.
        folders: the folders; None: those of the run.

    Raises:
        HarnessError: there is no such run.
    """
    return verifying.verify(_id(run), public_key=public_key, folders=_folders_of(run, folders))


@checked()
def sign(run: Run | Evaluation | str, key: Path, *, folders: Folders | None = None) -> Signature:
    """Sign all files of a run with an Ed25519 private key (PEM, OpenSSH).

    Raises:
        HarnessError: there is no such run or key, or the extra `sign` is missing.
    """
    return signing.sign(_id(run), key, folders=_folders_of(run, folders) or Folders())


@checked()
def merge(*runs: Run | str, name: str | None = None, folders: Folders | None = None) -> Run:
    """Merge the runs of all shards into one run; the shards stay as they are.

    Raises:
        HarnessError: a shard is missing, or they differ in more than their questions.
    """
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
    """Write a run in a format that other tools read, and return the folder of its files.

    Args:
        run: a graded run; for `trec`, a run of rankings.
        format: `csv`, `jsonl` or `parquet`, one row per question; `trec`, run and qrels; `official`, as the authors do;
            `inspect` or `inspect-json`, a log of Inspect.
        output: a folder; None: the run's own.
        folders: the folders; None: those of the run.

    Raises:
        HarnessError: there is no such run, or it lacks what the format needs.
    """
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
    """Make a run from another system's answers.

    Args:
        file: JSONL of `{"question_id", "hypothesis"}`, a judged log, or the result file of another harness.
        data: the questions.
        format: the tool that wrote it; `official` is the first two.
        cutoff: the cutoff to import, such as `top_50`, if a harness has results at several numbers of memories.
        name: the id of the run; None: made from the file's name and a hash.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the file cannot be read, is of another shape, or answers other questions.
    """
    place, chosen = folders or Folders(), as_data(data).dataset
    if format == "official":
        return Run(import_official(file, chosen, run_id=name, folders=place).run_id, place)
    return Run(import_harness(file, chosen, format, cutoff=cutoff, run_id=name, folders=place).run_id, place)


@checked()
def check_judge(
    data: Data | Dataset | str | Path, judge: str | None = None, *, folders: Folders | None = None
) -> CheckOutcome:
    """Have a judge grade planted answers whose truth is known; later scores are shown with its error rates.

    Args:
        data: the data set whose questions the plants answer.
        judge: as for `evaluate`; None: the benchmark's own.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the benchmark does not define how plants are made, or there is no such judge.
    """
    chosen = as_data(data)
    return JudgeChecking(chosen.dataset, judge, selection=chosen.selection, folders=folders).check()


@checked()
def make_board(*folders_of_runs: Path, folders: Folders | None = None) -> board.MadeBoard:
    """Verify the runs below folders and rank those that pass.

    Raises:
        HarnessError: there is no run.
    """
    return board.make_board(folders_of_runs, folders=folders)


def _id(run: Run | Evaluation | str) -> str:
    return run if isinstance(run, str) else run.id


def _folders_of(run: Run | Evaluation | str, folders: Folders | None) -> Folders | None:
    return folders or (None if isinstance(run, str) else run.folders)
