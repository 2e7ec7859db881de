"""`longmemeval retrieval`."""

from typing import TYPE_CHECKING

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import ClusterAddress, Shown, executor_spec
from longmemeval.cli.output import err, out, print_answer, print_json, print_lines, print_table, printable, warn
from longmemeval.pipeline.options import RetrievalOptions
from longmemeval.results.selection import Selection

if TYPE_CHECKING:
    from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport


EXAMPLE = "longmemeval retrieval -d sample -m bm25 -m hybrid"


def retrieval(
    dataset: shared.DatasetName,
    memory: shared.Memories,
    parameters: shared.Parameters,
    selection: Selection,
    options: RetrievalOptions,
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    address: ClusterAddress = None,
    as_json: shared.Json = False,
) -> None:
    """Measure evidence recall without a chat model.

    Rankings are scored against the gold labels of the data. No question is answered.
    """
    from msgspec import structs

    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.retrieval.retrieve import retrieve
    from longmemeval.report.tables.retrieval import retrieval_document

    shown.apply()
    folders = places.folders()
    overrides = parameters.overrides()
    report = retrieve(
        load_dataset(dataset, folders.data_dir),
        [resolve_configuration(spec, overrides) for spec in memory],
        selection=selection,
        options=structs.replace(
            options,
            model_options=rates.on(options.model_options, folders),
            executor=executor_spec(options.executor, address),
            tell=warn,
        ),
        folders=folders,
    )
    if as_json:
        print_json(retrieval_document(report))
    else:
        show(report, places)


def show(report: "RetrievalReport", places: shared.Places) -> None:
    """Print the figures, their footnotes, and where the rankings are."""
    from longmemeval.report.tables.retrieval import retrieval_footnotes, retrieval_tables

    print_answer([report.sentence])
    for table in retrieval_tables(report):
        print_table(table)
    print_lines(retrieval_footnotes(report))
    for run in report.runs:
        out.print(f"Run {printable(run.run_id)}: {run.newly_ranked:,} ranked now, in {printable(run.folder)}")
    export = command_line("export", report.runs[0].run_id, "--format", "trec", places=places)
    err.next((export, "the rankings, for trec_eval"))
