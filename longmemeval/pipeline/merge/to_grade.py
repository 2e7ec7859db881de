"""The runs that `evaluate` grades: those named, or made of a file of hypotheses or of a shard."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline.merge.split import shard_to_grade
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders


class ToGrade(Struct, frozen=True):
    """Runs to grade."""

    run_ids: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Ids in the file of hypotheses that the data set does not have."""
    missing: tuple[str, ...] = ()
    """Questions without a hypothesis."""


def runs_to_grade(
    run_ids: Sequence[str], hypotheses: Path | None, dataset: str | None, selection: Selection, where: Folders
) -> ToGrade:
    """Return the runs to grade; a file of hypotheses becomes one, and so does a shard of a whole run.

    Args:
        run_ids: the runs that are named; none beside `hypotheses`.
        hypotheses: a file of answers.
        dataset: where the data is: of the hypotheses, or of a run whose data has moved.
        selection: of the hypotheses; a run is graded as a whole, or a shard of it.
        where: the folders.

    Raises:
        HarnessError: the file has no data set, a run is to be graded in part, or there is no such shard.
    """
    if hypotheses is not None:
        if dataset is None:
            raise HarnessError("--hypotheses needs the questions that the file answers", fix="Give --dataset")
        data = load_dataset(dataset, where.data_dir)
        adopted = adopt_hypotheses(hypotheses, data, where.results_dir, selection=selection)
        return ToGrade((adopted.run_id,), adopted.unknown, adopted.missing)
    if selection != Selection(seed=selection.seed, shard=selection.shard):
        raise HarnessError(
            "A run is graded as a whole; its questions were selected when it was run",
            fix="Leave out --limit, --sample and --question-id",
        )
    if selection.shard:
        run_ids = [shard_to_grade(run_id, selection.shard, dataset, where) for run_id in run_ids]
    return ToGrade(tuple(run_ids))


@contextmanager
def without_trace(
    run_ids: Sequence[str], hypotheses: Path | None, selection: Selection, where: Folders
) -> Iterator[Folders]:
    """Yield folders for a dry run, in which what becomes a run (`runs_to_grade`) is not kept.

    Args:
        run_ids: the runs that are named.
        hypotheses: a file of answers.
        selection: as there.
        where: the folders; returned where nothing becomes a run.
    """
    results = where.results_dir
    of_whole = selection.shard and any((results / run_id / "run.json").exists() for run_id in run_ids)
    if not hypotheses and not of_whole:
        yield where
        return
    with TemporaryDirectory() as folder:
        for run in results.glob("*/run.json") if of_whole else ():
            (Path(folder) / run.parent.name).symlink_to(run.parent.absolute(), target_is_directory=True)
        yield where.model_copy(update={"results_dir": Path(folder)})
