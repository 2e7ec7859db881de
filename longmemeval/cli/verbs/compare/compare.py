"""`longmemeval compare`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from longmemeval.cli.options import shared
from longmemeval.cli.options.completion import complete_run
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import ADVANCED, LIMITS, OUTPUT, WHAT
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.cli.published import Published

if TYPE_CHECKING:
    from longmemeval.judges.protocol import JudgeIdentity
    from longmemeval.pipeline.compare.baseline import AgainstBaseline
    from longmemeval.pipeline.compare.comparison import Comparison
    from longmemeval.report.published import PublishedFigure
    from longmemeval.results.graded.graded_run import GradedRun


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "compare", compare, example="longmemeval compare demo-hybrid demo-bm25")


def compare(
    runs: shared.Runs,
    places: shared.Places,
    judge: shared.JudgeId = None,
    dataset: shared.MovedDataset = None,
    common: Annotated[
        bool, typer.Option("--common", rich_help_panel=WHAT, help="Compare on the questions all runs share.")
    ] = False,
    across: Annotated[
        bool,
        typer.Option("--across", rich_help_panel=WHAT, help="One table for runs on different data sets; no tests."),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|FILE",
            autocompletion=complete_run,
            rich_help_panel=LIMITS,
            help="Exit with 4 if a run is significantly worse.",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, metavar="FRACTION", rich_help_panel=LIMITS, help="Allowed loss; 0.02 is 2 points."
        ),
    ] = 0.0,
    save_baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=OUTPUT, help="Save a run for a later --against."),
    ] = None,
    published: Published = None,
    questions: Annotated[
        bool, typer.Option("--questions", rich_help_panel=OUTPUT, help="List the questions won and lost.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", rich_help_panel=ADVANCED, help="Seed of the resampling.")
    ] = 0,
    as_json: shared.Json = False,
) -> None:
    """Compare graded runs.

    Scores, significance, cost, and where questions were lost. Marks refer to the first run.
    """
    from longmemeval.pipeline.compare.baseline import compare_to_baseline, load_baseline, regression
    from longmemeval.pipeline.compare.baseline import save_baseline as save
    from longmemeval.pipeline.compare.compare import compare_runs
    from longmemeval.report.documents import comparison_document
    from longmemeval.report.published import published_for
    from longmemeval.report.tables.comparison import against_line
    from longmemeval.results.graded.graded_run import load_graded

    where = places.folders()
    run_ids = runs.named(where)
    if save_baseline is not None and len(run_ids) > 1:
        raise typer.BadParameter("--save-baseline takes one run")
    if across and (against or save_baseline or published or common or questions):
        raise typer.BadParameter("--across takes no --against, --save-baseline, --published, --common or --questions")
    graded = load_graded(run_ids, where, judge=judge, dataset=dataset)
    if across:
        _show_across(graded, as_json=as_json)
        return
    comparison = compare_runs(graded, where, seed=seed, common=common)
    held: list[AgainstBaseline] = []
    if against is not None:
        baseline = load_baseline(against, where, judge=graded[0].metrics.judge.id, dataset=dataset)
        held = [compare_to_baseline(run, baseline, margin=margin, seed=seed) for run in graded]
    own = graded[0].metrics.judge
    figures = published_for(graded[0].asked.dataset, None if published == "all" else own) if published else ()
    if as_json:
        print_json(comparison_document(comparison, against=held, published=figures, questions=questions))
    else:
        show(comparison, questions=questions)
        print_lines(map(against_line, held))
        if published:
            _show_published(figures, own)
    if error := regression(held):
        raise error
    if save_baseline is not None:
        save(graded[0], save_baseline)
        err.print(f"Baseline of {printable(run_ids[0])}: {printable(str(save_baseline))}")


def _show_published(figures: "Sequence[PublishedFigure]", judge: "JudgeIdentity") -> None:
    from longmemeval.report.tables.comparison import published_table

    if figures:
        print_table(published_table(figures))
    else:
        out.print(f"No published figure has this judge and metric ({printable(judge.model)}, {judge.metric}).")
        out.print("`--published all` shows those of other judges.")


def _show_across(graded: "list[GradedRun]", *, as_json: bool) -> None:
    from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table

    if as_json:
        print_json({"runs": [{"dataset": run.manifest.dataset["name"], **asdict(run.metrics)} for run in graded]})
        return
    print_table(ability_table(graded))
    print_lines([*ability_legend(graded), "", *ability_notes(graded)])


def show(comparison: "Comparison", *, questions: bool = False) -> None:
    """Print a comparison.

    Args:
        comparison: what to print.
        questions: whether to list the questions won and lost.
    """
    from longmemeval.report.tables.comparison import comparison_notes, comparison_tables, question_lists, run_letters
    from longmemeval.report.tables.layout import legend

    for place, table in enumerate(comparison_tables(comparison, out.width)):
        print_table(table)
        if place == 0 and (called := run_letters(comparison, out.width)):
            print_lines([*legend(called), ""])
    if questions:
        print_lines(
            f"{heading} ({len(ids)}): {', '.join(ids) or 'none'}" for heading, ids in question_lists(comparison)
        )
    print_lines(comparison_notes(comparison, out.width))
