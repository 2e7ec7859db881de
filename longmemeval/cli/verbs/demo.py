"""`longmemeval demo`."""

import time
from typing import Annotated, Literal

import typer

from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import ADVANCED
from longmemeval.cli.output import err, print_json, print_lines, print_table


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "demo", demo, example="longmemeval demo")


def demo(
    places: shared.Places,
    index: Annotated[
        Literal["hnsw", "exact"],
        typer.Option(metavar="KIND", rich_help_panel=ADVANCED, help="Vector search; exact works without hnswlib."),
    ] = "hnsw",
    as_json: shared.Json = False,
) -> None:
    """Run the whole pipeline on the shipped sample.

    Every memory configuration, offline, without a key, in under a minute.
    """
    from longmemeval.cli.verbs.prepare import show as show_preparation
    from longmemeval.pipeline.compare.compare import pairs_of
    from longmemeval.pipeline.compare.floor import floor_note
    from longmemeval.pipeline.compare.graded_run import StoredChecks, graded_run
    from longmemeval.pipeline.demo import run_demo
    from longmemeval.report.documents import run_document
    from longmemeval.report.tables.cells import memory_table
    from longmemeval.report.tables.footnotes import footnotes

    started = time.perf_counter()
    where = places.folders()
    outcome = run_demo(index, where)
    checks = StoredChecks(where.results_dir)
    graded = [graded_run(one.files, one.asked, one.metrics, where, checks) for one in outcome.evaluations]
    summaries = [one.summary for one in graded]
    if as_json:
        print_json({"prepare": outcome.preparation, "runs": [run_document(summary) for summary in summaries]})
        return
    show_preparation(outcome.preparation)
    title = f"sample, {summaries[0].metrics.overall.n} questions, model {summaries[0].model}"
    print_table(memory_table(title, summaries))
    print_lines(filter(None, [floor_note(summaries, pairs_of(graded)), *footnotes(summaries)]))
    new = outcome.newly_answered
    done = f"{new} questions answered" if new else "every question was already answered"
    err.print(
        f"{time.perf_counter() - started:.1f} s, {done}. Runs: {where.results_dir}/, fixtures: {where.prepared_dir}/."
    )
    first = outcome.evaluations[0].manifest.question_ids[0]
    read = command_line("inspect", first, places=shared.PreparedPlaces(prepared_dir=places.prepared_dir))
    compare = command_line("compare", "demo-hybrid", "demo-last-k", "demo-full-history", places=places)
    err.next(read, compare)
