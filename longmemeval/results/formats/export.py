"""`export`: runs in a format that other tools read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from longmemeval.results.formats.export_inspect import InspectExport, export_inspect
from longmemeval.results.formats.export_questions import TableExport, export_questions
from longmemeval.results.formats.export_trec import TrecExport, export_trec
from longmemeval.results.formats.official_logs import OfficialExport, export_official
from longmemeval.results.options import ExportFormat
from longmemeval.settings import Folders

Exported = OfficialExport | TrecExport | TableExport | InspectExport


def export_runs(
    run_ids: Sequence[str],
    format: ExportFormat,
    output: Path | None = None,
    *,
    dataset: str | None = None,
    folders: Folders,
) -> Iterator[Exported]:
    """Write runs one after the other, and yield a record of each export; for `inspect`, of each log.

    Args:
        run_ids: ids of graded runs; for `trec`, of rankings.
        output: the folder, with a subfolder for each of several runs, so that their files do not collide; None: the
            run's own.
        dataset: path or name of the data set with the gold, if it has moved.

    Raises:
        HarnessError: there is no such run, or it lacks what the format needs.
        IntegrityError: its files have been changed since the run.
    """
    if format == "inspect" or format == "inspect-json":
        yield from export_inspect(run_ids, output, format=format, dataset=dataset, folders=folders)
        return
    for run_id in run_ids:
        folder = output / run_id if output and len(run_ids) > 1 else output
        if format == "trec":
            yield export_trec(run_id, folder, dataset=dataset, folders=folders)
        elif format == "official":
            yield export_official(run_id, folder, dataset=dataset, folders=folders)
        else:
            yield export_questions(run_id, folder, format=format, dataset=dataset, folders=folders)
