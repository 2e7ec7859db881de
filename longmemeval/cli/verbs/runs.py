"""`longmemeval runs`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, print_json, print_lines, print_table, warn_omitted
from longmemeval.cli.verbs.status import show as show_progress
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count, count_of, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longmemeval.pipeline.status import RunState
    from longmemeval.results.listing import ListedRun
    from longmemeval.results.scores.warnings import ScoreWarning


EXAMPLE = "longmemeval runs --memory 'hybrid*' --since 2026-11-01"


def runs(
    runs: shared.Runs,
    places: shared.Places,
    dataset: Annotated[str | None, shared.dataset_option("Dataset of the runs.")] = None,
    memory: Annotated[
        str | None,
        Flag(WHAT, "MEMORY", "Memory of the runs, or a pattern.", name="--memory -m"),
    ] = None,
    model: Annotated[str | None, Flag(WHAT, "MODEL", "Model of the runs, or a pattern.")] = None,
    status: Annotated[
        Literal["running", "completed", "incomplete", "failed", "interrupted", "damaged"] | None,
        Flag(WHAT, "STATUS", "Status, such as completed, incomplete or interrupted."),
    ] = None,
    since: Annotated[str | None, Flag(WHAT, "DATE", "Earliest start of the runs, in UTC.")] = None,
    watch: Annotated[bool, Flag(OUTPUT, help="Refresh until all runs have finished.", name="--watch -w")] = False,
    as_json: shared.Json = False,
) -> None:
    """List runs with their scores and progress.

    Newest first; the score is that of the official judge, else of the newest. With RUN: the progress of these.
    """
    from longmemeval.pipeline.status import state_of_unfinished, unfinished_preparations
    from longmemeval.report.tables.status import sentences
    from longmemeval.results.graded.graded_run import warnings_of
    from longmemeval.results.listing import RunFilter, list_runs, unrecorded_note
    from longmemeval.results.scores.warnings import WARNED, warned_lines

    folders, sweep = places.folders(), runs.sweep
    if runs.run_ids or watch:
        if any((dataset, memory, model, status, since)):
            raise typer.BadParameter("RUN and --watch cannot be combined with filters")
        show_progress(runs, folders, watch=watch, as_json=as_json)
        return
    results_dir, wanted = folders.results_dir, RunFilter(dataset, memory, model, status, since, sweep)
    found = list_runs(results_dir, wanted)
    if sweep is not None and (left_out := unrecorded_note(list_runs(results_dir), sweep)):
        warn_omitted(left_out)
    if as_json:
        print_json({"runs": found})
        return
    if not found:
        every = wanted == RunFilter()
        out.print("No runs yet." if every else "No runs match. Leave out the filters to list all runs.")
        return
    warnings = warnings_of(found, folders)
    print_table(
        tabulate("", _columns(warnings.by_run, WARNED), [(run, state_of_unfinished(run, folders)) for run in found])
    )
    print_lines(warned_lines(list(warnings.by_run.items())))
    if unknown := warnings.unknown:
        out.print(f"{count_of(unknown, 'score')} not checked for warnings; `longmemeval compare RUN` does that.")
    print_lines(
        line for preparation in unfinished_preparations(folders.prepared_dir) for line in sentences(preparation.look())
    )
    out.print(count_of(len(found), "run"))


def _columns(
    warnings: "Mapping[str, Sequence[ScoreWarning]]", mark: str
) -> "list[Column[tuple[ListedRun, RunState | None]]]":
    return [
        Column("run", lambda row: row[0].run, "text"),
        Column("memory", lambda row: _memory(row[0]) or None, "text"),
        Column("model", lambda row: row[0].model or None, "text", drop=2),
        Column("dataset", lambda row: row[0].dataset or None, "text", drop=4),
        Column("status", lambda row: row[1].state if row[1] else row[0].status, "text", drop=6),
        Column("questions", lambda row: _questions(*row)),
        Column("score", lambda row: _score(row[0], f" {mark}" if warnings.get(row[0].run) else "")),
        Column("judge", lambda row: row[0].scores[0].judge if row[0].scores else None, "text", drop=3),
        Column("started", lambda row: row[0].started_at[:16].replace("T", " "), "text", drop=5),
    ]


def _memory(run: "ListedRun") -> str:
    return f"{run.memory} (retrieval)" if run.kind == "retrieval" else run.memory


def _questions(run: "ListedRun", state: "RunState | None") -> str:
    from longmemeval.report.tables.status import progress

    if state:
        return progress(state)
    all_answered = run.answered is None or run.answered >= run.questions
    return count(run.questions) if all_answered else f"{run.answered:,} of {run.questions:,}"


def _score(run: "ListedRun", mark: str) -> str | None:
    if run.answered == 0:
        return "no answers"
    return percent(run.scores[0].value) + mark if run.scores else None
