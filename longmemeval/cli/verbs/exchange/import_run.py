"""`longmemeval import`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import next_step
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of, listed


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "import", import_run, example="longmemeval import answers.jsonl -d longmemeval_s")


def import_run(
    file: Annotated[
        Path,
        Flag(metavar="FILE", help="JSONL: question_id, hypothesis; in a judged log autoeval_label.", argument=True),
    ],
    dataset: shared.DatasetName,
    places: shared.Places,
    run_id: Annotated[str | None, Flag(OUTPUT, "RUN", "Name the run [default: file name and a hash].")] = None,
    as_json: shared.Json = False,
) -> None:
    """Make a run from a hypothesis file or a judged log.

    The file has the official format. The run can be evaluated, compared and reported like any other.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.benchmarks.specs import benchmark_of
    from longmemeval.report.tables.cells import score_table
    from longmemeval.report.tables.footnotes import warning_lines
    from longmemeval.results.formats.official_logs import import_official
    from longmemeval.results.graded.graded_run import load_graded

    where = places.folders()
    data = load_dataset(dataset, where.data_dir)
    imported = import_official(file, data, run_id=run_id, where=where)
    if as_json:
        print_json(imported)
    else:
        out.print(f"Run {printable(imported.run_id)}: {count_of(imported.answered, 'answer')}")
    tell(imported.unknown, "line is", "lines are", "ignored: the data set does not have the question")
    tell(imported.missing, "question is", "questions are", "without a hypothesis, counted as not evaluated")
    twice = "twice, as the official script counts them; this run counts them once"
    tell(imported.repeated, "question occurs", "questions occur", twice)
    tell(imported.unlabelled, "answer is", "answers are", "without a label, counted as not evaluated")
    metrics = imported.metrics
    if as_json:
        return
    if metrics is None:
        err.next(next_step.grade(imported.run_id, benchmark_of(data), "", places))
        return
    summary = load_graded([imported.run_id], where, dataset=dataset)[0].summary
    print_table(score_table(f"as judged by {metrics.judge.model}, as in the log", summary))
    print_lines(warning_lines([(summary.run_id, summary.warnings)]))
    figures = metrics.official_figures
    if imported.script_stops:
        out.print(f"The official script would stop at this log: {printable('; '.join(imported.script_stops))}.")
    elif figures is not None:
        shown = {"task-averaged": figures.task_averaged, "overall": figures.overall, "abstention": figures.abstention}
        told = ", ".join(f"{name} {'nan' if value is None else value}" for name, value in shown.items())
        out.print(f"The official script prints of this log: {told}")


def tell(questions: tuple[str, ...], one: str, several: str, what: str) -> None:
    """Count and name on standard error what does not fit."""
    if questions:
        err.print(f"{count_of(len(questions), one, several)} {what}: {printable(listed(questions, 5))}")
