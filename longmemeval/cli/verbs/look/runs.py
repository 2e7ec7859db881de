"""`longmemeval runs`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli.options import shared
from longmemeval.cli.options.completion import complete_memory
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import WHAT
from longmemeval.cli.output import out, print_json, print_table, tell_omitted
from longmemeval.core.text.plural import count_of
from longmemeval.report.tables.table import Table

if TYPE_CHECKING:
    from longmemeval.results.listing import ListedRun


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "runs", runs, example="longmemeval runs --memory 'hybrid*' --since 2026-11-01")


def runs(
    places: shared.Places,
    dataset: Annotated[
        str | None,
        shared.dataset_option("Only on this data set."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            "-m",
            metavar="MEMORY",
            autocompletion=complete_memory,
            rich_help_panel=WHAT,
            help="Only with this memory, or a pattern.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", rich_help_panel=WHAT, help="Only with this model, or a pattern.")
    ] = None,
    status: Annotated[
        Literal["running", "completed", "incomplete", "failed", "interrupted", "damaged"] | None,
        typer.Option(metavar="STATUS", rich_help_panel=WHAT, help="completed, incomplete, interrupted, ..."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", rich_help_panel=WHAT, help="Only runs started since then, in UTC.")
    ] = None,
    sweep: shared.Sweep = None,
    as_json: shared.Json = False,
) -> None:
    """List runs, newest first.

    The score is that of the official judge, else of the newest.
    """
    from longmemeval.results.listing import RunFilter, list_runs, unrecorded_note

    results_dir, wanted = places.folders().results_dir, RunFilter(dataset, memory, model, status, since, sweep)
    found = list_runs(results_dir, wanted)
    if sweep is not None and (left_out := unrecorded_note(list_runs(results_dir), sweep)):
        tell_omitted(left_out)
    if as_json:
        print_json({"runs": found})
        return
    if not found:
        every = wanted == RunFilter()
        out.print("There are no runs yet." if every else "No run matches. Without filters, all runs are listed.")
        return
    columns = ["run", "memory", "model", "data set", "status", "questions", "score", "judge", "started"]
    rows = [_row(one) for one in found]
    print_table(Table("", columns, rows, left=frozenset({0, 1, 2, 3, 4, 7, 8}), drop=(8, 3, 7, 2, 1)))
    out.print(count_of(len(found), "run"))


def _row(one: "ListedRun") -> list[str]:
    from longmemeval.report.tables.cells import percent

    open_ones = one.answered is not None and one.answered < one.questions
    questions = f"{one.answered:,} of {one.questions:,}" if open_ones else f"{one.questions:,}"
    score = one.scores[0] if one.scores else None
    memory = f"{one.memory} (retrieval)" if one.kind == "retrieval" else one.memory
    return [
        one.run,
        memory or "-",
        one.model or "-",
        one.dataset or "-",
        one.status,
        questions,
        percent(score.value) if score else "-",
        score.judge if score else "-",
        one.started_at[:16].replace("T", " "),
    ]
