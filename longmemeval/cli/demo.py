"""`longmemeval demo`."""

import time
from typing import Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, print_json, print_lines, print_table


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    index: Annotated[Literal["hnsw", "exact"], typer.Option(help="`exact` works without hnswlib.")] = "hnsw",
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
    as_json: shared.Json = False,
) -> None:
    """Run the whole pipeline on the shipped sample: every memory configuration, offline, no key, under a minute."""
    from longmemeval.cli.prepare import show as show_preparation
    from longmemeval.pipeline.compare.graded_run import summarise
    from longmemeval.pipeline.demo import run_demo
    from longmemeval.report.comparison_document import run_document
    from longmemeval.report.summary import footnotes
    from longmemeval.report.tables import memory_table
    from longmemeval.settings import folders

    started = time.perf_counter()
    where = folders(prepared_dir=prepared_dir, results_dir=results_dir)
    outcome = run_demo(index, where)
    summaries = [summarise(one.asked, one.metrics, where) for one in outcome.evaluations]
    if as_json:
        print_json({"prepare": outcome.preparation, "runs": [run_document(summary) for summary in summaries]})
        return
    show_preparation(outcome.preparation, outcome.embedder)
    title = f"sample, {summaries[0].metrics.overall.n} questions, model {summaries[0].model}"
    print_table(memory_table(title, summaries))
    print_lines(footnotes(summaries))
    new = outcome.newly_answered
    done = f"{new} questions answered" if new else "everything was answered already"
    err.print(
        f"{time.perf_counter() - started:.1f} s, {done}. Runs: {where.results_dir}/, fixtures: {where.prepared_dir}/."
    )
    first = outcome.evaluations[0].manifest.question_ids[0]
    err.print(f"Next: longmemeval inspect {first} · longmemeval compare demo-hybrid demo-last-k demo-full-history")
