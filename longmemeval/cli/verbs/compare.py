"""`longmemeval compare`."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer
from msgspec.structs import asdict

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line, page
from longmemeval.cli.output import err, out, print_answer, print_json, print_lines, print_table, printable
from longmemeval.cli.panels import Published
from longmemeval.core.options import LIMITS, OUTPUT, WHAT, Flag, words_of
from longmemeval.errors import HarnessError, nearest
from longmemeval.report.options import ReportFormat, ReportOptions
from longmemeval.results.compared import newest_alike
from longmemeval.results.options import AUDIT, BaselineRun, JudgeId, MovedDataset

if TYPE_CHECKING:
    from longmemeval.judges.protocol import JudgeIdentity
    from longmemeval.pipeline.claims.catalogue import Claim
    from longmemeval.pipeline.compare.baseline import AgainstBaseline
    from longmemeval.pipeline.compare.comparison import Comparison
    from longmemeval.results.graded.graded_run import Evaluation

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


EXAMPLE = "longmemeval compare demo-hybrid demo-bm25"


@dataclass(frozen=True, kw_only=True)
class Details:
    """The parts of a comparison that are shown besides the verdict, the table of runs and their main notes."""

    tables: Annotated[bool, Flag(OUTPUT)] = False
    """Show all tables: types, causes, cost, latency."""
    pairs: Annotated[bool, Flag(OUTPUT)] = False
    """Show all pairwise tests, and draw the verdict from them."""
    notes: Annotated[bool, Flag(OUTPUT)] = False
    """Show all notes."""
    questions: Annotated[bool, Flag(OUTPUT)] = False
    """List the questions on which runs differ."""


_NO_DETAILS = Details()


def compare(
    runs: shared.Runs,
    details: Details,
    places: shared.Places,
    judge: JudgeId = None,
    dataset: MovedDataset = None,
    common: Annotated[bool, Flag(WHAT, help="Compare on the questions all runs share.")] = False,
    across: Annotated[bool, Flag(WHAT, help="Show one table for runs on different datasets, untested.")] = False,
    against: Annotated[
        str | None, Flag(LIMITS, "RUN|FILE", "Reference run; exit with 4 if a run is significantly worse.")
    ] = None,
    baseline: BaselineRun = None,
    margin: Annotated[
        float | None,
        Flag(
            LIMITS,
            "FRACTION",
            "Largest loss that --against tolerates [default: 0]; equivalence margin [default: 0.03 = 3 points].",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = None,
    save_baseline: Annotated[Path | None, Flag(OUTPUT, "FILE", "File to save a run to, for a later --against.")] = None,
    published: Published = None,
    audit: Annotated[list[str] | None, AUDIT] = None,
    format: Annotated[
        str | None,
        Flag(OUTPUT, "FORMAT", "Output format: github (job summary and annotations)."),
    ] = None,
    latex: Annotated[bool, Flag(hidden=True)] = False,
    as_json: shared.Json = False,
) -> None:
    """Compare graded runs with paired significance tests.

    The verdict first, then scores and differences from the baseline. Without names: the newest graded run and those
    like it.
    """
    from longmemeval.pipeline.compare.baseline import compare_to_baseline, load_baseline, regression
    from longmemeval.pipeline.compare.baseline import save_baseline as save
    from longmemeval.pipeline.compare.compare import compare_runs
    from longmemeval.pipeline.compare.verdict import MARGIN
    from longmemeval.report.documents import comparison_document
    from longmemeval.report.tables.comparison import against_line
    from longmemeval.report.text import published_for, write_summary
    from longmemeval.results.graded.graded_run import load_graded

    folders = places.folders()
    _check_format("latex" if latex else format, runs, places)
    run_ids = runs.compared(folders, baseline, or_newest=True)
    if save_baseline is not None and len(run_ids) > 1:
        raise typer.BadParameter("--save-baseline takes one run")
    if across and (against or save_baseline or published or common or audit or details.questions):
        others = "--against, --save-baseline, --published, --common, --audit or --questions"
        raise typer.BadParameter(f"--across takes no {others}")
    if format and (across or as_json or any(astuple(details))):
        raise typer.BadParameter("--format takes no --across, --json, --tables, --pairs, --notes or --questions")
    graded = load_graded(run_ids, folders, judge=judge, dataset=dataset)
    if across:
        _show_across(graded, as_json=as_json)
        return
    close = MARGIN if margin is None else margin
    family: Literal["baseline", "pairs"] = "pairs" if details.pairs else "baseline"
    comparison = compare_runs(graded, folders, common=common, margin=close, family=family, audits=audit or ())
    outcomes: list[AgainstBaseline] = []
    if against is not None:
        saved = load_baseline(against, folders, judge=graded[0].metrics.judge.id, dataset=dataset)
        outcomes = [compare_to_baseline(run, saved, margin=margin or 0.0) for run in graded]
    own = graded[0].metrics.judge
    figures = published_for(graded[0].asked.dataset, None if published == "all" else own) if published else ()
    if as_json:
        print_json(comparison_document(comparison, against=outcomes, published=figures, questions=details.questions))
    elif format:
        out.file.write(write_summary(comparison, outcomes, figures))
    else:
        show(comparison, details)
        print_lines(map(against_line, outcomes))
        if published:
            _show_published(figures, own)
        if not common:
            words = runs.run_ids or (["--sweep", runs.sweep] if runs.sweep else run_ids)
            chosen = words_of(ReportOptions(judge=judge, dataset=dataset, baseline=baseline, audit=tuple(audit or ())))
            out.next(*page(*words, *chosen, places=places))
    if error := regression(outcomes):
        raise error
    if save_baseline is not None:
        save(graded[0], save_baseline)
        err.print(f"Baseline of {printable(run_ids[0])}: {printable(str(save_baseline))}")


def _check_format(format: str | None, runs: shared.Runs, places: shared.Places) -> None:
    """Refuse formats that `report` writes, with its command, and unknown ones."""
    written = get_args(ReportFormat)
    if format and format in written:
        named = [*(runs.run_ids or ()), *(["--sweep", runs.sweep] if runs.sweep else [])]
        named = named or newest_alike(places.folders().results_dir) or ["RUN"]
        command = command_line("report", *named, "--format", format, places=places)
        raise HarnessError(f"`compare` does not write {format}; `report` does", fix=f"Run `{command}`")
    if format not in (None, "github"):
        raise HarnessError(f"Unknown format '{format}'", fix=nearest(format, ("github", *written)))


def _show_published(figures: "Sequence[Claim]", judge: "JudgeIdentity") -> None:
    from longmemeval.report.tables.comparison import published_table

    if figures:
        print_table(published_table(figures))
    else:
        out.print(f"No published figure has this judge and metric ({printable(judge.model)}, {judge.metric}).")
        out.print("`--published all` shows those of other judges.")


def _show_across(graded: "list[Evaluation]", *, as_json: bool) -> None:
    from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table

    if as_json:
        print_json({"runs": [{"dataset": run.manifest.dataset["name"], **asdict(run.metrics)} for run in graded]})
        return
    print_table(ability_table(graded))
    print_lines([*ability_legend(graded), "", *ability_notes(graded)])


def show(comparison: "Comparison", shown: Details = _NO_DETAILS, *, command: str = "") -> None:
    """Print a comparison.

    Args:
        shown: the details that were requested.
        command: the command line that takes the options for more details; empty: the present one.
    """
    from longmemeval.report.tables.comparison import comparison_answer

    print_answer(comparison_answer(comparison, **vars(shown)))
    left = [f"--{option}" for option, on in vars(shown).items() if not on and (option != "pairs" or comparison.pairs)]
    if left:
        others = f"   # or {', '.join(left[1:])}" if left[1:] else ""
        print_lines([f"Details: {command} {left[0]}{others}" if command else f"Details: add {', '.join(left)}"])
