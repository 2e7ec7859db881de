"""`longmemeval prepare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, printable

if TYPE_CHECKING:
    from longmemeval.pipeline.fixtures.prepare import PrepareReport


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("prepare")(prepare)


def prepare(
    dataset: shared.DatasetName,
    memory: Annotated[
        list[str],
        typer.Option(
            "--memory",
            "--memory-config",
            "-m",
            help="A preset, module:Class or a YAML file; repeat for several.",
        ),
    ],
    embedder: Annotated[
        str, typer.Option(help="hashing[:DIM] (offline fallback), fastembed:NAME, fastembed:FOLDER or openai:MODEL.")
    ] = "hashing",
    embed_text: Annotated[
        Literal["content", "speaker", "dated", "neighbours"],
        typer.Option(help="What is embedded of a message: alone, behind its speaker or date, or with its neighbours."),
    ] = "content",
    query_prefix: Annotated[
        str, typer.Option(help="What the embedding model wants before a question; kept in the fixtures for `run`.")
    ] = "",
    document_prefix: Annotated[str, typer.Option(help="What it wants before a stored text.")] = "",
    index: Annotated[Literal["hnsw", "exact"], typer.Option(help="HNSW graph, or exact search.")] = "hnsw",
    name: Annotated[str, typer.Option(help="Name of the preparation.")] = "default",
    working_memory_model: Annotated[
        str, typer.Option(help="Who keeps the working memory: `rules` (offline) or a chat model.")
    ] = "rules",
    working_memory_template: Annotated[
        Path | None, typer.Option(help="Markdown file with the sections of the working memory.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value for a parameter that needs preparation (expansion)."),
    ] = None,
    expansion_model: Annotated[
        str | None, typer.Option(help="Chat model that makes key expansions, where a configuration has some.")
    ] = None,
    api_base: shared.ApiBase = None,
    max_cost: shared.MaxCost = None,
    give_up_after: shared.GiveUpAfter = 120.0,
    limit: shared.Limit = None,
    sample: shared.Sample = None,
    seed: shared.Seed = 0,
    question_id: shared.QuestionIds = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers [default: one per core when it pays].")] = None,
    backend: Annotated[Literal["loky", "threading"], typer.Option(help="Processes or threads.")] = "loky",
    force: Annotated[bool, typer.Option("--force", help="Make the parts again even if they are there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and what it would cost.")] = False,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    as_json: shared.Json = False,
) -> None:
    """Turn each question's haystack into a fixture, once; add what is missing, skip what is there."""
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.fixtures import prepare as pipeline
    from longmemeval.settings import folders
    from longmemeval.spending import SpendingLimit

    where = folders(data_dir=data_dir, prepared_dir=prepared_dir)
    configurations = [resolve_configuration(one, settings or []) for one in memory]
    report = pipeline.prepare(
        load_dataset(dataset, where.data_dir),
        configurations,
        selection=shared.selection(limit, sample, seed, question_id),
        options=pipeline.PrepareOptions(
            embedder=embedder,
            embedded_text=embed_text,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            index=index,
            name=name,
            working_memory_model=working_memory_model,
            working_memory_template=working_memory_template,
            expansion_model=expansion_model,
            api_base=api_base,
            spending=None if max_cost is None else SpendingLimit(max_cost),
            give_up_after_s=give_up_after,
            jobs=jobs,
            backend=backend,
            force=force,
            dry_run=dry_run,
        ),
        where=where,
    )
    if as_json:
        print_json(report)
    else:
        show(report, embedder)


def show(report: "PrepareReport", embedder: str) -> None:
    """Print what was, or would be, done."""
    from longmemeval.embedding.registry import is_offline_fallback
    from longmemeval.report.tables import usage_line

    parts = ", ".join(report.parts) or "none"
    if report.dry_run:
        out.print(f"Would prepare {report.prepared} of {report.haystacks} haystacks in {printable(report.folder)}")
        out.print(f"  parts: {parts}")
        for what, amount in report.estimate.items():
            out.print(f"  {what}: {amount:,.4g}" if amount < 1 else f"  {what}: {amount:,.0f}")
        for note in report.notes:
            err.print(f"Note: {printable(note)}")
        return
    if report.recovered.calls:
        err.print(
            f"Note: an earlier prepare was stopped before it had recorded {usage_line(report.recovered)}; that is in "
            f"{printable(report.folder)}/prepare.jsonl now, and the results are in the cache."
        )
    if report.prepared == 0:
        out.print(f"Everything is prepared already: {report.haystacks} haystacks in {printable(report.folder)}")
        return
    out.print(
        f"Prepared {report.prepared} haystacks ({report.already} were there) in {report.seconds:.1f} s: "
        f"{report.messages:,} messages, parts {parts}, in {printable(report.folder)}"
    )
    if "vector" in report.parts:
        texts = report.embeddings_computed + report.embeddings_cached
        share = report.embeddings_cached / texts if texts else 0.0
        computed, cached = report.embeddings_computed, report.embeddings_cached
        damaged = f"; {report.embeddings_damaged:,} damaged ones replaced" if report.embeddings_damaged else ""
        out.print(f"Embeddings: {computed:,} computed, {cached:,} from the cache ({share:.0%}){damaged}")
        if is_offline_fallback(embedder):
            err.print("Embedder hashing is the offline fallback; real ones: fastembed:NAME or FOLDER, openai:MODEL.")
    if report.usage.calls:
        out.print(f"Model use: {usage_line(report.usage)}")
    for note in report.notes[:5]:
        err.print(f"Note: {printable(note)}")
    if len(report.notes) > 5:
        err.print(f"… and {len(report.notes) - 5} more notes, all in {printable(report.folder)}/prepare.jsonl")
