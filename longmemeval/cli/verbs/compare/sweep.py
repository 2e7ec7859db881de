"""`longmemeval sweep`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from longmemeval.cli.estimates import show_sweep
from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.progress import Shown
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.cli.verbs.compare.compare import show as show_comparison
from longmemeval.core.options import LIMITS, OUTPUT, Flag
from longmemeval.core.text.plural import count_of
from longmemeval.report.tables.layout import fits, legend, lettered
from longmemeval.report.tables.table import Table

if TYPE_CHECKING:
    from longmemeval.pipeline.sweep.sweep import SweepComparison, SweepReport
    from longmemeval.results.graded.graded_run import RunSummary


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "sweep", sweep, example="longmemeval sweep grid.yaml --dry-run")


def sweep(
    file: Annotated[Path, Flag(metavar="FILE.yaml", help="The sweep; see docs/sweep.md.", argument=True)],
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    dry_run: Annotated[bool, Flag(OUTPUT, help="Show what is left and its cost; do nothing.")] = False,
    max_cost: Annotated[
        float | None,
        Flag(
            LIMITS, "USD", "Spend at most this, including earlier attempts [default: the file's max_cost].", minimum=0.0
        ),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Run, grade and compare every combination in a file.

    Finished work is not repeated.
    """
    from longmemeval.pipeline.sweep.sweep import sweep as do_sweep

    shown.apply()
    where = places.folders()
    report = do_sweep(
        file,
        max_cost=max_cost,
        rates=rates.rates(where),
        dry_run=dry_run,
        where=where,
        tell=lambda line: err.print(printable(line)),
    )
    if as_json:
        print_json(_document(report))
    elif dry_run:
        show_sweep(report.estimate, len(report.runs))
    else:
        show(report)
    for failure in report.failures:
        err.print(printable(f"Failed: {failure.run_id}: {failure.what}"))
    if report.failures:
        err.print("Rerun the command to retry what failed.")
        raise typer.Exit(1)


def show(report: "SweepReport") -> None:
    """Print what the runs came to, and where they are."""
    for compared in report.comparisons:
        again = command_line("compare", "--sweep", report.name, "--judge", compared.judge)
        show_comparison(compared.comparison, command=again)
        _show_front(compared)
    worked = report.newly_answered or report.newly_judged or report.failures
    new = f"{count_of(report.newly_answered, 'question')} answered and {count_of(report.newly_judged, 'answer')} graded"
    err.print(f"{report.seconds:.1f} s: {new if worked else 'nothing was left to do'}.")
    out.print(printable(f"Runs: {report.results}/{report.name}_*"))


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _show_front(compared: "SweepComparison") -> None:
    from longmemeval.report.tables.comparison import run_letters
    from longmemeval.report.tables.effort import PERCENTILES

    summaries = {run.summary.run_id: run.summary for run in compared.comparison.runs}
    rows = [[point.name, *_front_row(summaries[point.name], point.name in compared.front)] for point in compared.points]
    metric = compared.comparison.runs[0].summary.metrics.judge.metric
    columns = ["run", "on the\nfront", metric, "prompt\ntokens", *PERCENTILES, "cost"]
    title = f"Pareto front: {metric} against tokens, latency (both p50, in ms) and cost, judge {compared.judge}"
    # The percentiles that say least go first.
    table = Table(title, columns, rows, left=frozenset({0, 1}), drop=(5, 7, 9, 4, 6))
    if not fits(table, out.width):
        called = lettered([run.summary.run_id for run in compared.comparison.runs])
        table = structs.replace(table, rows=[[called[row[0]], *row[1:]] for row in rows])
        if not run_letters(compared.comparison, out.width):
            print_lines(legend(called))
    print_table(table)


def _front_row(summary: "RunSummary", on_front: bool) -> list[str]:
    from longmemeval.report.tables.cells import cost_text, percent
    from longmemeval.report.tables.effort import latency_cells

    return [
        "●" if on_front else "",
        percent(summary.metrics.overall.accuracy),
        _count(summary.mean_prompt_tokens),
        *latency_cells(summary.latency),
        cost_text(summary.costs.total),
    ]


def _document(report: "SweepReport") -> dict[str, object]:
    """Return one document: `runs` as `compare --json` has them, `pareto` the ids on the front by the first judge."""
    from longmemeval.report.documents import comparison_document

    return {
        "sweep": report.name,
        "runs": [run for one in report.comparisons for run in comparison_document(one.comparison)["runs"]],
        "pareto": list(report.comparisons[0].front) if report.comparisons else [],
        "failed": report.failures,
        "estimate": report.estimate,
    }
