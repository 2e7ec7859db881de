"""`longmemeval retrieval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable

if TYPE_CHECKING:
    from longmemeval.pipeline.runs.rankings import RetrievalReport


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("retrieval")(retrieval)


def retrieval(
    dataset: shared.DatasetName,
    memory: Annotated[
        list[str],
        typer.Option(
            "--memory", "--memory-config", "-m", help="A preset, module:Class or a YAML file; repeat for several."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="key=value for a parameter of the memories (listed in docs/parameters.md); repeat for several.",
        ),
    ] = None,
    reranker: Annotated[str | None, typer.Option(help="Short for --set reranker=SPEC.")] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Short for --set budget=TOKENS (characters / 4): a ranking ends where the next unit, neighbours "
            "(message_range) included, no longer fits."
        ),
    ] = None,
    query_model: Annotated[
        str | None, typer.Option(help="Who analyses the questions under decompose=model or time_range_by=model.")
    ] = None,
    api_base: shared.ApiBase = None,
    give_up_after: shared.GiveUpAfter = 120.0,
    protocol: Annotated[
        Literal["standard", "official"],
        typer.Option(help="standard: from prepared fixtures; official: LongMemEval's own, straight from the data."),
    ] = "standard",
    granularity: Annotated[
        Literal["session", "turn"] | None,
        typer.Option(help="What is ranked and scored [default: session, for LoCoMo turn]."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="E.g. recall_any@5, or recall_any with --k; repeat for several [default: the usual ones]."),
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Cutoff of the measures named without; repeat for several.")
    ] = None,
    prepared: Annotated[str, typer.Option(help="Name of the preparation to read.")] = "default",
    embedder: Annotated[
        str | None,
        typer.Option(help="The fixtures' embedder under another name; official: semantic-recall's [hashing]."),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(help="Name of the run, an unfinished one is continued; several memories add theirs to it."),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Official protocol: write the log in the official format.")] = None,
    expansion_cache: Annotated[
        Path | None,
        typer.Option(help="Official protocol: the expansions as the official scripts write them [the preparation's]."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes over haystacks [default: one per core when it pays].")
    ] = None,
    limit: shared.Limit = None,
    sample: shared.Sample = None,
    seed: shared.Seed = 0,
    question_id: shared.QuestionIds = None,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
    as_json: shared.Json = False,
) -> None:
    """Measure how well memories find the evidence, against the gold labels of the data; nothing is answered."""
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.llm.options import ModelOptions
    from longmemeval.memory.configuration import given_parameters, resolve_configuration
    from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
    from longmemeval.report.retrieval_tables import retrieval_document
    from longmemeval.settings import folders

    where = folders(data_dir=data_dir, prepared_dir=prepared_dir, results_dir=results_dir)
    overrides = [*(settings or []), *given_parameters(reranker=reranker, budget=budget)]
    report = retrieve(
        load_dataset(dataset, where.data_dir),
        [resolve_configuration(one, overrides) for one in memory],
        selection=shared.selection(limit, sample, seed, question_id),
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
            model_options=ModelOptions(api_base=api_base, give_up_after_s=give_up_after),
            jobs=jobs,
            tell=lambda text: err.print(printable(text)),
        ),
        where=where,
    )
    if as_json:
        print_json(retrieval_document(report))
    else:
        show(report)


def show(report: "RetrievalReport") -> None:
    """Print the figures, what they mean, and where the rankings are."""
    from longmemeval.report.retrieval_tables import retrieval_footnotes, retrieval_tables

    for table in retrieval_tables(report):
        print_table(table)
    print_lines(retrieval_footnotes(report))
    for run in report.runs:
        out.print(f"Run {printable(run.run_id)}: {run.newly_ranked:,} ranked now, in {printable(run.folder)}")
    err.print(f"Next: longmemeval export {printable(report.runs[0].run_id)} --format trec")
