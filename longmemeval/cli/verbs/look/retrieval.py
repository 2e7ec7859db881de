"""`longmemeval retrieval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import shared
from longmemeval.cli.options.cluster import ClusterAddress, executor_spec
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import ADVANCED, OUTPUT, WHAT
from longmemeval.cli.options.progress import Shown
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.core.defaults import GIVE_UP_AFTER_S

if TYPE_CHECKING:
    from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "retrieval", retrieval, example="longmemeval retrieval -d sample -m bm25 -m hybrid")


def retrieval(
    dataset: shared.DatasetName,
    memory: shared.Memories,
    parameters: shared.Parameters,
    questions: shared.Questions,
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    prepared: shared.Prepared = "default",
    protocol: Annotated[
        Literal["standard", "official"],
        typer.Option(metavar="NAME", rich_help_panel=WHAT, help="standard, or official (the benchmark authors' own)."),
    ] = "standard",
    granularity: Annotated[
        Literal["session", "turn"] | None,
        typer.Option(metavar="UNIT", rich_help_panel=WHAT, help="session or turn [default: what the protocol ranks]."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", rich_help_panel=OUTPUT, help="Such as recall_any@5; repeatable [default: the usual ones]."
        ),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", metavar="N", rich_help_panel=OUTPUT, help="Cutoff for measures without; repeatable."),
    ] = None,
    query_model: shared.QueryModel = None,
    max_cost: shared.MaxCost = None,
    api_base: shared.ApiBase = None,
    give_up_after: shared.GiveUpAfter = GIVE_UP_AFTER_S,
    twice: Annotated[
        bool,
        typer.Option(
            "--twice", rich_help_panel=WHAT, help="Ask each question twice; report how often the recall changes."
        ),
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            rich_help_panel=ADVANCED,
            help="The fixtures' embedder under another name. Under --protocol official, the embedder of "
            "semantic-recall [default: hashing].",
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            rich_help_panel=OUTPUT,
            help="Name the run, or continue it if unfinished.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ADVANCED,
            help="Under --protocol official: write the log in the official format.",
        ),
    ] = None,
    expansion_cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ADVANCED,
            help="Under --protocol official: expansions as the official scripts write them [default: the "
            "preparation's].",
        ),
    ] = None,
    jobs: shared.Jobs = None,
    executor: shared.ExecutorName = None,
    address: ClusterAddress = None,
    as_json: shared.Json = False,
) -> None:
    """Measure how well memories find the evidence.

    Rankings are scored against the gold labels of the data. No question is answered.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.llm.options import ModelOptions
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
    from longmemeval.report.tables.retrieval import retrieval_document

    shown.apply()
    where = places.folders()
    overrides = parameters.overrides()
    report = retrieve(
        load_dataset(dataset, where.data_dir),
        [resolve_configuration(one, overrides) for one in memory],
        selection=questions.selection(),
        options=RetrievalOptions(
            protocol=protocol,
            granularity=granularity,
            measures=tuple(measure or ()),
            cutoffs=tuple(k or ()),
            prepared=prepared,
            embedder=embedder,
            run_id=run_id,
            log=log,
            expansion_cache=expansion_cache,
            query_model=query_model,
            model_options=ModelOptions(api_base=api_base, give_up_after_s=give_up_after, rates=rates.rates(where)),
            spending=shared.spending(max_cost),
            jobs=jobs,
            executor=executor_spec(executor, address),
            twice=twice,
            tell=lambda text: err.print(printable(text)),
        ),
        where=where,
    )
    if as_json:
        print_json(retrieval_document(report))
    else:
        show(report, places)


def show(report: "RetrievalReport", places: shared.Places) -> None:
    """Print the figures, what they mean, and where the rankings are."""
    from longmemeval.report.tables.retrieval import retrieval_footnotes, retrieval_tables

    for table in retrieval_tables(report):
        print_table(table)
    print_lines(retrieval_footnotes(report))
    for run in report.runs:
        out.print(f"Run {printable(run.run_id)}: {run.newly_ranked:,} ranked now, in {printable(run.folder)}")
    export = command_line("export", report.runs[0].run_id, "--format", "trec", places=places)
    err.next(export)
