"""`longmemeval prepare`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.estimates import show_preparation
from longmemeval.cli.next_step import check, command_line, option_words
from longmemeval.cli.options import ClusterAddress, Shown, executor_spec
from longmemeval.cli.output import err, out, print_json, printable
from longmemeval.core.options import WHAT, Flag, words_of
from longmemeval.core.text.figures import count_of
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.results.selection import Selection

if TYPE_CHECKING:
    from longmemeval.pipeline.prepare.prepare import PrepareReport


EXAMPLE = "longmemeval prepare -d sample -m hybrid"


def prepare(
    dataset: shared.DatasetName,
    memory: shared.Memories,
    selection: Selection,
    options: PrepareOptions,
    places: shared.PreparedPlaces,
    rates: shared.Rates,
    shown: Shown,
    settings: Annotated[
        list[str] | None, Flag(WHAT, "KEY=VALUE", "Parameter of the memory that needs preparation.", name="--set")
    ] = None,
    address: ClusterAddress = None,
    as_json: shared.Json = False,
) -> None:
    """Ingest the chat histories of a dataset.

    Existing parts are skipped; parts that the memories still need are added.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.prepare import prepare as pipeline

    shown.apply()
    if options.measure and not options.dry_run:
        raise typer.BadParameter("--measure needs --dry-run")
    folders = places.folders()
    fresh = not folders.has_cache
    configurations = [resolve_configuration(spec, settings or []) for spec in memory]
    report = pipeline.prepare(
        load_dataset(dataset, folders.data_dir),
        configurations,
        selection=selection,
        options=options.replaced(
            model_options=rates.on(options.model_options, folders), executor=executor_spec(options.executor, address)
        ),
        folders=folders,
    )
    if as_json:
        print_json(report)
    else:
        show(report, fresh=fresh)
        setting_words = option_words("--set", settings or ())
        connection = words_of(options.model_options, ["api_base", "embed_batch"])
        if report.failed and report.failed_haystacks == report.prepared + report.already:
            setting_words += words_of(options.of_parts, ("memory_model", "embedder")) + connection
            pairs = zip(memory, configurations, strict=True)
            out.next(*(step for pair in pairs for step in check(*pair, setting_words)))
        elif not options.dry_run:
            words = ["--dataset", dataset, "--memory", memory[0], "--model", "offline/extractive", *setting_words]
            words += ["--prepared", options.name] if options.name != "default" else []
            words += [*connection, *words_of(selection)]
            out.next((command_line("run", *words, places=places), "answer the questions, offline"))
    if report.failed:
        raise typer.Exit(1)


def _show_estimate(report: "PrepareReport") -> None:
    """Print the estimate of a dry run."""
    from longmemeval.report.tables.runs import usage_line

    haystacks = count_of(report.haystacks, "haystack")
    out.print(f"Would prepare {report.prepared:,} of {haystacks} in {printable(report.folder)}")
    out.print(f"  parts: {', '.join(report.parts) or 'none'}")
    show_preparation(report)
    if report.usage.calls:
        out.print(f"  measured just now: {usage_line(report.usage)}")
    for note in report.notes:
        err.print(f"Note: {printable(note)}")
    for failure in report.failed:
        err.print(f"Failed: {printable(failure)}")


def show(report: "PrepareReport", *, fresh: bool = False) -> None:
    """Print the work that was, or would be, done.

    Args:
        report: the report of the work.
        fresh: True if there was no cache before; a text that was not computed then occurred twice.
    """
    from longmemeval.embedding.registry import is_offline_fallback
    from longmemeval.report.tables.runs import usage_line, usage_share

    parts, haystacks = ", ".join(report.parts) or "none", count_of(report.haystacks, "haystack")
    if report.dry_run:
        _show_estimate(report)
        return
    if report.recovered.calls:
        err.print(
            f"Note: an earlier prepare stopped before it recorded {usage_line(report.recovered)}; it is in "
            f"{printable(report.folder)}/prepare.jsonl now, and the results are in the cache."
        )
    if report.prepared == 0:
        out.print(f"Already prepared: {haystacks} in {printable(report.folder)}")
        return
    already = f" ({report.already:,} already prepared)" if report.already else ""
    failed, duration = report.failed_haystacks, f"in {report.seconds:.1f} s"
    if failed == report.prepared:
        out.print(f"Prepared none of {count_of(failed, 'haystack')}{already} {duration}: all failed")
    else:
        whole = f"{report.prepared - failed:,} of {report.prepared:,} haystacks" if failed else ""
        out.print(
            f"Prepared {whole or count_of(report.prepared, 'haystack')}{already} {duration}: "
            f"{count_of(report.messages, 'message')}, in {printable(report.folder)}"
        )
    out.print(f"  parts: {parts}")
    if report.embedder:
        computed, cached = report.embeddings_computed, report.embeddings_cached
        uncached = fresh or is_offline_fallback(report.embedder)
        others = f"; {cached:,} {'repeated' if uncached else 'from the cache or repeated'}" if cached else ""
        damaged = f"; {report.embeddings_damaged:,} damaged ones recomputed" if report.embeddings_damaged else ""
        out.print(f"Embeddings: {computed:,} computed{others}{damaged}")
        if is_offline_fallback(report.embedder):
            err.print(
                "Using the hashing embedder (offline fallback). For meaningful scores, pass --embedder fastembed:NAME, "
                "fastembed:FOLDER or openai:MODEL."
            )
    if report.usage.calls:
        out.print(f"Model use: {usage_line(report.usage)}")
        out.print(f"  {usage_share(report.usage, report.prepared, report.messages)}")
    for part, reasons in report.dropped.items():
        counts = ", ".join(f"{number:,} for {why}" for why, number in reasons.items())
        out.print(f"Discarded from the replies for {part}: {counts}")
    for failure in report.failed[:5]:
        err.print(f"Failed: {printable(failure)}")
    if report.failed:
        err.print(
            f"{failed:,} of {report.prepared:,} haystacks failed; their questions count as unanswered. Fix the errors "
            "above and rerun the same command."
        )
    for note in report.notes[:5]:
        err.print(f"Note: {printable(note)}")
    if len(report.notes) > 5:
        err.print(f"… and {len(report.notes) - 5} more notes, all in {printable(report.folder)}/prepare.jsonl")
