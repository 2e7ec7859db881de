"""`longmemeval demo`."""

from typing import TYPE_CHECKING, Annotated, Literal

from longmemeval.cli import next_step
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
        Literal["hnsw", "exact"] | None,
        Flag(metavar="KIND", help="Vector index, also in run ids [default: hnsw if installed]."),
    ] = None,
    everything: Annotated[bool, Flag(WHAT, help="Run every memory configuration and control.", name="--all")] = False,
    as_json: shared.Json = False,
) -> None:
    """Run the full pipeline on the bundled sample, offline.

    Runs five memories and three controls offline in under a minute and writes a report.
    """
    if not as_json:
        err.print("Running the demo offline …")
    from longmemeval.cli.verbs.compare import show as show_comparison
    from longmemeval.cli.verbs.prepare import show as show_preparation
    from longmemeval.pipeline.demo import run_demo
    from longmemeval.report.documents import run_document

    folders = places.folders()
    outcome = run_demo(index, folders, everything=everything)
    summaries = [evaluation.summary for evaluation in outcome.evaluations]
    comparison = outcome.comparison(folders)
    if as_json:
        runs = [run_document(summary) for summary in summaries]
        print_json({"prepare": outcome.preparation, "runs": runs, "verdict": comparison.verdict})
        return
    show_preparation(outcome.preparation)
    ids = [run.run_id for run in comparison.runs]
    named = ["demo-*" if index is None else f"demo-*-{index}", "--baseline", ids[0]]
    show_comparison(comparison, command=command_line("compare", *named, places=places))
    new = outcome.newly_answered
    done = f"Answered {new:,} questions in" if new else "All questions were already answered; took"
    places_of = f"Runs: {folders.results_dir}/. Prepared data: {folders.prepared_dir}/."
    err.print(f"{done} {outcome.seconds:.1f} s. {places_of}")
    _write_report(ids, folders)
    question = outcome.evaluations[0].manifest.question_ids[0]
    own = ["--prepared", index] if index else []
    fixtures = shared.PreparedPlaces(data_dir=places.data_dir, prepared_dir=places.prepared_dir)
    err.next(
        (command_line("inspect", question, "-m", "hybrid", *own, places=fixtures), "what was retrieved for a question"),
        (command_line("compare", *named, "--pairs", places=places), "all pairwise tests"),
        *next_step.view(places),
    )


def _write_report(run_ids: list[str], folders: "Folders") -> None:
    """Write the report on the runs, and print its path."""
    from longmemeval.errors import HarnessError
    from longmemeval.report.write import write_report

    try:
        written = write_report(run_ids, folders.results_dir / REPORT, folders=folders)
    except HarnessError as error:
        warn(f"The report was not written: {error}")
    else:
        out.print(printable(f"Report: {written.file}"))
