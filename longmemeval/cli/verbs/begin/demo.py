"""`longmemeval demo`."""

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import ADVANCED, WHAT
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable

if TYPE_CHECKING:
    from longmemeval.settings import Folders

REPORT = "demo-report.html"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "demo", demo, example="longmemeval demo")


def demo(
    places: shared.Places,
    index: Annotated[
        Literal["hnsw", "exact"],
        typer.Option(metavar="KIND", rich_help_panel=ADVANCED, help="Vector search; exact works without hnswlib."),
    ] = "hnsw",
    everything: Annotated[
        bool, typer.Option("--all", rich_help_panel=WHAT, help="Every memory configuration and control.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Run the whole pipeline on the shipped sample.

    Six memories and two controls, offline, without a key, in seconds; a report at the end.
    """
    from longmemeval.cli.verbs.begin.prepare import show as show_preparation
    from longmemeval.pipeline.compare.floor import floor_note
    from longmemeval.pipeline.demo import run_demo
    from longmemeval.report.documents import run_document
    from longmemeval.report.tables.cells import memory_table
    from longmemeval.report.tables.footnotes import footnotes
    from longmemeval.results.graded.graded_run import StoredChecks, graded_run

    started = time.perf_counter()
    where = places.folders()
    if not as_json:
        err.print("Preparing, answering and grading the shipped sample, offline ...")
    outcome = run_demo(index, where, everything=everything)
    checks = StoredChecks(where.results_dir)
    graded = [graded_run(one.files, one.asked, one.metrics, where, checks) for one in outcome.evaluations]
    summaries = [one.summary for one in graded]
    if as_json:
        print_json({"prepare": outcome.preparation, "runs": [run_document(summary) for summary in summaries]})
        return
    show_preparation(outcome.preparation)
    title = f"sample, {summaries[0].metrics.overall.n} questions, model {summaries[0].model}"
    print_table(memory_table(title, summaries))
    print_lines(filter(None, [floor_note(graded), *footnotes(summaries)]))
    new = outcome.newly_answered
    done = f"{new} questions answered" if new else "every question was already answered"
    err.print(
        f"{time.perf_counter() - started:.1f} s, {done}. Runs: {where.results_dir}/, fixtures: {where.prepared_dir}/."
    )
    first = outcome.evaluations[0].manifest.question_ids[0]
    read = command_line("inspect", first, places=shared.PreparedPlaces(prepared_dir=places.prepared_dir))
    compare = command_line("compare", "demo-hybrid", "demo-last-k", "demo-full-history", places=places)
    err.next(read, compare)
    _write_report([summary.run_id for summary in summaries], where)


def _write_report(run_ids: list[str], where: "Folders") -> None:
    """Write the page on the runs, and end with its path."""
    from longmemeval.errors import HarnessError
    from longmemeval.report.write import write_report

    try:
        written = write_report(run_ids, where.results_dir / REPORT, where=where)
    except HarnessError as error:
        err.print(printable(f"No report was written: {error}"))
    else:
        out.print(printable(f"Report: {written.file}"))
