"""`longmemeval demo`."""

from typing import TYPE_CHECKING, Annotated, Literal

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line
from longmemeval.cli.output import err, out, print_json, printable, warn
from longmemeval.core.options import WHAT, Flag

if TYPE_CHECKING:
    from longmemeval.settings import Folders


EXAMPLE = "longmemeval demo"
REPORT = "demo-report.html"


def demo(
    places: shared.Places,
    index: Annotated[
        Literal["hnsw", "exact"],
        Flag(metavar="KIND", help="Vector search; exact works without hnswlib."),
    ] = "hnsw",
    everything: Annotated[bool, Flag(WHAT, help="Every memory configuration and control.", name="--all")] = False,
    as_json: shared.Json = False,
) -> None:
    """Run the full pipeline on the bundled sample, offline.

    Six memories and two controls, offline, without a key, in seconds; a report at the end.
    """
    from longmemeval.cli.verbs.compare import show as show_comparison
    from longmemeval.cli.verbs.prepare import show as show_preparation
    from longmemeval.pipeline.demo import run_demo
    from longmemeval.report.documents import run_document

    folders = places.folders()
    if not as_json:
        err.print("Preparing, answering and grading the shipped sample, offline ...")
    outcome = run_demo(index, folders, everything=everything)
    summaries = [evaluation.summary for evaluation in outcome.evaluations]
    comparison = outcome.comparison(folders)
    if as_json:
        runs = [run_document(summary) for summary in summaries]
        print_json({"prepare": outcome.preparation, "runs": runs, "verdict": comparison.verdict})
        return
    show_preparation(outcome.preparation)
    again = command_line("compare", "demo-*", "--baseline", comparison.runs[0].summary.run_id, places=places)
    show_comparison(comparison, command=again)
    new = outcome.newly_answered
    done = f"{new} questions answered" if new else "every question was already answered"
    err.print(f"{outcome.seconds:.1f} s, {done}. Runs: {folders.results_dir}/, fixtures: {folders.prepared_dir}/.")
    question = outcome.evaluations[0].manifest.question_ids[0]
    read = command_line("inspect", question, places=shared.PreparedPlaces(prepared_dir=places.prepared_dir))
    compare = command_line("compare", "demo-hybrid", "demo-last-k", "demo-full-history", places=places)
    err.next(read, compare)
    _write_report([run.run_id for run in comparison.runs], folders)


def _write_report(run_ids: list[str], folders: "Folders") -> None:
    """Write the report on the runs, and print its path."""
    from longmemeval.errors import HarnessError
    from longmemeval.report.write import write_report

    try:
        written = write_report(run_ids, folders.results_dir / REPORT, folders=folders)
    except HarnessError as error:
        warn(f"No report was written: {error}")
    else:
        out.print(printable(f"Report: {written.file}"))
