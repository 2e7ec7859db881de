"""`longmemeval merge`."""

from typing import TYPE_CHECKING, Annotated

from longmemeval.cli import next_step
from longmemeval.cli import options as shared
from longmemeval.cli.output import out, print_json, printable
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of
from longmemeval.results.options import MovedDataset

if TYPE_CHECKING:
    from longmemeval.pipeline.merge.merge import MergeReport


EXAMPLE = "longmemeval merge 'nightly-*of8'"


def merge(
    runs: shared.Runs,
    places: shared.Places,
    run_id: Annotated[
        str | None,
        Flag(OUTPUT, "RUN", "Name of the merged run [default: the start of the shards' names]."),
    ] = None,
    dataset: MovedDataset = None,
    as_json: shared.Json = False,
) -> None:
    """Merge the runs of all shards.

    It verifies as if it had never been split. The shards stay as they are.
    """
    from longmemeval.pipeline.merge.merge import merge as pipeline

    folders = places.folders()
    report = pipeline(runs.named(folders, rankings=True), run_id=run_id, dataset=dataset, folders=folders)
    if as_json:
        print_json(report)
    else:
        _show(report)
        verify = next_step.command_line("verify", report.run_id, places=places)
        out.next((verify, "check all hashes and recompute all scores"))


def _show(report: "MergeReport") -> None:
    done = "ranked" if report.kind == "retrieval" else "answered"
    what = (
        "was already merged from these shards" if report.already else f"merged from {count_of(report.shards, 'shard')}"
    )
    questions = count_of(report.questions, "question")
    out.print(printable(f"Run {report.run_id} {what}: {report.answered:,} of {questions} {done}, in {report.folder}"))
    if report.judges:
        out.print(printable(f"Judged by {', '.join(report.judges)}"))
