"""Find the runs that `evaluate` grades: named runs, or runs made from a file of hypotheses or from a shard."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import SPENDING
from longmemeval.llm.model_calls import CALLS
from longmemeval.pipeline.merge.merge import merge_accounts, merge_lines
from longmemeval.records import Question
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.lines import ANSWERS, FOOTPRINT, PROMPTS, answer_totals, footprint_part, memory_call_totals
from longmemeval.results.manifest import RunManifest, run_folder, write_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import dataset_of
from longmemeval.results.scores.checked import read_run
from longmemeval.results.selection import Selection, select, shard_named, sharded_id
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders


class GradingInput(Struct, frozen=True):
    """Runs to grade."""

    run_ids: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Ids in the file of hypotheses that the dataset does not have."""
    missing: tuple[str, ...] = ()
    """Questions without a hypothesis."""


def runs_to_grade(
    run_ids: Sequence[str], hypotheses: Path | None, dataset: str | None, selection: Selection, folders: Folders
) -> GradingInput:
    """Return the runs to grade; a file of hypotheses becomes one, and so does a shard of a whole run.

    Args:
        run_ids: ids of runs; none if there are `hypotheses`.
        hypotheses: a file of answers.
        dataset: location of the data of the hypotheses, or of a run whose data has moved.
        selection: questions of the hypotheses; a run is graded as a whole, or a shard of it.

    Raises:
        HarnessError: the file has no dataset, a run is to be graded in part, or there is no such shard.
    """
    if hypotheses is not None:
        if dataset is None:
            raise HarnessError("--hypotheses needs the questions that the file answers", fix="Give --dataset")
        data = load_dataset(dataset, folders.data_dir)
        adopted = adopt_hypotheses(hypotheses, data, folders.results_dir, selection=selection)
        return GradingInput((adopted.run_id,), adopted.unknown, adopted.missing)
    if selection != Selection(seed=selection.seed, shard=selection.shard):
        raise HarnessError(
            "A run is graded as a whole; its questions were selected when it was run",
            fix="Leave out --limit, --sample and --question-id",
        )
    if selection.shard:
        run_ids = [shard_to_grade(run_id, selection.shard, dataset, folders) for run_id in run_ids]
    return GradingInput(tuple(run_ids))


@contextmanager
def without_trace(
    run_ids: Sequence[str], hypotheses: Path | None, selection: Selection, folders: Folders
) -> Iterator[Folders]:
    """Yield folders for a dry run, which discards the runs that `runs_to_grade` makes.

    Args:
        folders: the folders in force; returned if no run is made.
    """
    results = folders.results_dir
    splits_runs = selection.shard and any((results / run_id / "run.json").exists() for run_id in run_ids)
    if not hypotheses and not splits_runs:
        yield folders
        return
    with TemporaryDirectory() as folder:
        for run in results.glob("*/run.json") if splits_runs else ():
            (Path(folder) / run.parent.name).symlink_to(run.parent.absolute(), target_is_directory=True)
        yield folders.model_copy(update={"results_dir": Path(folder)})


_FROM_ANSWERS = {
    *("answered", "failed", "empty", "cut", "shortened", "undated", "truncated", "usage", "missing", "memory_calls"),
    FOOTPRINT,
}
"""The totals that are counted over questions."""


def shard_to_grade(run_id: str, shard: str, dataset: str | None, folders: Folders) -> str:
    """Return the run to grade for one shard of a run.

    It is the run of that shard; if only a whole run exists, its answers to the questions of the shard are copied to a
    new run. Totals of the whole run that cannot be divided by question go with the first shard, so that merging gives
    all of them back.

    Args:
        run_id: the beginning of the shards' run names, or a whole run.
        shard: the shard, such as `3/8`.
        dataset: the location of the data, if it has moved.

    Raises:
        HarnessError: there is neither a run of this shard nor a whole one.
        IntegrityError: the files of the whole run are not as it left them.
    """
    name = sharded_id(run_id, shard)
    target, whole = folders.results_dir / name, folders.results_dir / run_id
    if not (target / "run.json").exists() and (whole / "run.json").exists():
        _split(RunFiles(run_folder(folders.results_dir, run_id)), target, shard, dataset, folders)
    return name


def _split(files: RunFiles, target: Path, shard: str, dataset: str | None, folders: Folders) -> None:
    manifest, source = files.manifest, files.folder
    if manifest.kind == "retrieval" or manifest.selection.shard:
        fix = (
            "Leave out --shard"
            if manifest.kind == "retrieval"
            else "Name the runs by what the names of all shards begin with"
        )
        raise HarnessError(f"Run '{manifest.run_id}' cannot be divided into shards", where=str(source), fix=fix)
    if manifest.status == "running":
        raise HarnessError(f"Run '{manifest.run_id}' has not ended", where=str(source), fix="Wait for it, or rerun it")
    read_run(files)
    data = dataset_of(manifest, dataset, folders)
    selection = structs.replace(manifest.selection, shard=shard)
    chosen = select(list(data.questions()), selection, data.question_type)
    is_first = shard_named(shard).number == 1
    order = {question.question_id: number for number, question in enumerate(chosen)}
    hashes = {name: merge_lines([source / name], target / name, order, others=False) for name in (ANSWERS, PROMPTS)}
    haystacks = {name: number for number, name in enumerate(dict.fromkeys(question.haystack_id for question in chosen))}
    merge_lines([source / CALLS], target / CALLS, haystacks, others=False)
    if is_first:
        merge_accounts([source / SPENDING], target / SPENDING)
    settings = manifest.settings
    if isinstance(settings, AnswerSettings) and not is_first:
        settings = structs.replace(settings, parts={})
    part = structs.replace(
        manifest,
        run_id=target.name,
        settings=settings,
        question_ids=tuple(order),
        fixtures={name: manifest.fixtures[name] for name in haystacks if name in manifest.fixtures},
        selection=selection,
        files={name: digest for name, digest in hashes.items() if digest},
        merged_from=(),
    )
    write_manifest(target, structs.replace(part, totals=_totals(manifest, target, chosen, is_first=is_first)))


def _totals(manifest: RunManifest, target: Path, chosen: list[Question], *, is_first: bool) -> dict[str, object]:
    counted = answer_totals(RunFiles(target, manifest=manifest).answer_lines)
    if manifest.kind != "run":
        answered = counted["answered"]
        return manifest.totals | {"answered": answered, "missing": len(chosen) - answered}
    rest = {name: value for name, value in manifest.totals.items() if name not in _FROM_ANSWERS and is_first}
    histories = {question.haystack_id for question in chosen}
    memory_totals = memory_call_totals(target) | footprint_part(manifest.totals, histories, is_first=is_first)
    return counted | rest | memory_totals
