"""`longmemeval sweep`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.estimates import show_sweep
from longmemeval.cli.next_step import command_line, page, view
from longmemeval.cli.options import Shown
from longmemeval.cli.output import err, out, print_json, print_table, printable, warn
from longmemeval.cli.verbs.compare import show as show_comparison
from longmemeval.core.options import LIMITS, OUTPUT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count, count_of, listed, percent

if TYPE_CHECKING:
    from longmemeval.pipeline.sweep.sweep import SweepComparison, SweepReport
    from longmemeval.results.graded.graded_run import GradedRun


EXAMPLE = "longmemeval sweep grid.yaml --dry-run"


def sweep(
    file: Annotated[Path, Flag(metavar="FILE.yaml", help="Sweep file; see docs/sweep.md.", argument=True)],
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    dry_run: Annotated[bool, Flag(OUTPUT, help="Estimate the remaining calls and their cost.")] = False,
    max_cost: Annotated[
        float | None,
        Flag(
            LIMITS,
            "USD",
            "Spending limit in US dollars, earlier attempts included [default: the file's max_cost].",
            minimum=0.0,
        ),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Run, grade and compare a grid of configurations.

    Finished work is not repeated.
    """
    from longmemeval.pipeline.sweep.sweep import sweep as do_sweep
    from longmemeval.report.documents import sweep_document

    shown.apply()
    folders = places.folders()
    report = do_sweep(
        file,
        max_cost=max_cost,
        rates=rates.rates(folders),
        dry_run=dry_run,
        folders=folders,
        tell=warn,
    )
    if as_json:
        print_json(sweep_document(report))
    elif dry_run:
        show_sweep(report.estimate, len(report.runs))
    else:
        show(report, places)
    alike: dict[tuple[str, str], list[str]] = {}
    for failure in report.failures:
        alike.setdefault((failure.what, failure.setting), []).append(failure.run_id)
    for (what, setting), run_ids in alike.items():
        check = f" Setting to change: {setting}." if setting else ""
        warn(f"Failed: {listed(run_ids, 3)}: {what.removesuffix('.')}.{check}")
    if report.failures:
        err.print("Rerun the command to retry what failed.")
        raise typer.Exit(1)


def show(report: "SweepReport", places: shared.Places) -> None:
    """Print the results of the runs, where they are, and the pages that show them."""
    from longmemeval.pipeline.sweep.holdout import holdout_line

    for compared in report.comparisons:
        again = command_line("compare", "--sweep", report.name, "--judge", compared.judge)
        show_comparison(compared.comparison, command=again)
        _show_front(compared)
        if compared.holdout:
            out.print(printable(holdout_line(compared.holdout)))
    worked = report.newly_answered or report.newly_judged or report.failures
    new = f"{count_of(report.newly_answered, 'question')} answered and {count_of(report.newly_judged, 'answer')} graded"
    err.print(f"{new if worked else 'Nothing was left to do'}; took {report.seconds:.1f} s.")
    out.print(printable(f"Runs: {report.results}/{report.name}_*"))
    for compared in report.comparisons[:1]:
        judge = ["--judge", compared.judge] if len(report.comparisons) > 1 else []
        out.next(*page("--sweep", report.name, *judge, places=places), *view(places))


def _show_front(compared: "SweepComparison") -> None:
    from longmemeval.report.tables.runs import latency_columns
    from longmemeval.results.graded.graded_run import cost_text

    comparison = compared.comparison
    summaries = {row.run_id: row.summary for row in comparison.rows}
    columns: list[Column[GradedRun]] = [
        Column("memory", lambda run: comparison.names[run.run_id], "text"),
        Column("Pareto-\noptimal", lambda run: "●" if run.run_id in compared.front else "", "text"),
        Column(comparison.metric, lambda run: percent(run.metrics.overall.accuracy)),
        Column("prompt\ntokens", lambda run: count(run.mean_prompt_tokens)),
        *latency_columns(lambda run: run),
        Column("cost", lambda run: cost_text(run.costs.total)),
    ]
    metric = comparison.metric
    title = f"Pareto front: {metric} vs. tokens, latency (both p50, in ms) and cost, judge {compared.judge}"
    print_table(tabulate(title, columns, [summaries[point.name] for point in compared.points]))
