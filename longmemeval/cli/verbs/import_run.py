"""`longmemeval import`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from longmemeval.cli import next_step
from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of, listed, percent
from longmemeval.errors import HarnessError
from longmemeval.results.formats.harness_files import ImportFormat, import_harness

if TYPE_CHECKING:
    from longmemeval.dataset import Dataset
    from longmemeval.measures.metrics import Metrics
    from longmemeval.settings import Folders


EXAMPLE = "longmemeval import answers.jsonl -d longmemeval_s"


def import_run(
    file: Annotated[
        Path,
        Flag(metavar="FILE", help="JSONL file with question_id and hypothesis.", argument=True),
    ],
    dataset: shared.DatasetName,
    places: shared.Places,
    format: Annotated[
        ImportFormat, Flag(OUTPUT, "FORMAT", f"Format: {', '.join(get_args(ImportFormat))}.")
    ] = "official",
    cutoff: Annotated[
        str | None, Flag(OUTPUT, "NAME", "Cutoff to import, such as top_50, if there are several.")
    ] = None,
    run_id: Annotated[str | None, Flag(OUTPUT, "RUN", "Name of the run [default: file name and a hash].")] = None,
    as_json: shared.Json = False,
) -> None:
    """Import answers from another system.

    The file holds hypotheses, a judged log, or the results of another harness. The run can be evaluated, compared and
    reported like any other; what the file does not say stays unknown.
    """
    from longmemeval.benchmarks.registry import load_dataset

    folders = places.folders()
    data = load_dataset(dataset, folders.data_dir)
    if format == "official":
        if cutoff is not None:
            raise HarnessError("Official files have no cutoffs", fix="Leave out --cutoff, or name the --format")
        _official(file, data, dataset, places, run_id, as_json)
        return
    imported = import_harness(file, data, format, cutoff=cutoff, run_id=run_id, folders=folders)
    if as_json:
        print_json(imported)
    else:
        by = " and ".join(filter(None, (imported.memory, imported.model))) or "an unknown system"
        out.print(f"Run {printable(imported.run_id)}: {count_of(imported.answered, 'answer')} of {printable(by)}")
    twice = "ignored: the dataset asks the question more than once, and the id does not say which one is meant"
    warn_questions(imported.ambiguous, "line is", "lines are", twice)
    _warn_mismatches(imported.unknown, imported.missing, imported.unlabelled)
    if as_json:
        return
    _show(imported.run_id, imported.metrics, f"as {format} graded it", dataset, folders)
    if imported.claimed is not None:
        score, total = percent(imported.metrics.overall.accuracy), imported.metrics.overall.n
        out.print(
            f"The file itself claims {percent(imported.claimed)} over its own questions; "
            f"here it is {score} over all {total:,}."
        )


def _official(
    file: Path, data: "Dataset", dataset: str, places: shared.Places, run_id: str | None, as_json: bool
) -> None:
    from longmemeval.results.formats.hypotheses import import_official

    imported = import_official(file, data, run_id=run_id, folders=places.folders())
    if as_json:
        print_json(imported)
    else:
        out.print(f"Run {printable(imported.run_id)}: {count_of(imported.answered, 'answer')}")
    _warn_mismatches(imported.unknown, imported.missing, imported.unlabelled, imported.repeated)
    metrics = imported.metrics
    if as_json:
        return
    if metrics is None:
        err.next(*next_step.grade(imported.run_id, data, "", places))
        return
    _show(imported.run_id, metrics, f"as judged by {metrics.judge.model}, as in the log", dataset, places.folders())
    figures = metrics.official_figures
    if imported.script_stops:
        out.print(f"The official script would stop at this log: {printable('; '.join(imported.script_stops))}.")
    elif figures is not None:
        shown = {"task-averaged": figures.task_averaged, "overall": figures.overall, "abstention": figures.abstention}
        line = ", ".join(f"{name} {'nan' if value is None else value}" for name, value in shown.items())
        out.print(f"The official script prints for this log: {line}")


def _show(run_id: str, metrics: "Metrics", title: str, dataset: str, folders: "Folders") -> None:
    from longmemeval.report.tables.comparison import warning_lines
    from longmemeval.report.tables.runs import score_table
    from longmemeval.results.graded.graded_run import load_graded

    summary = load_graded([run_id], folders, judge=metrics.judge.id, dataset=dataset)[0].summary
    print_table(score_table(title, summary))
    print_lines(warning_lines([(summary.run_id, summary.warnings)]))


def _warn_mismatches(
    unknown: tuple[str, ...],
    missing: tuple[str, ...],
    unlabelled: tuple[str, ...],
    repeated: tuple[str, ...] = (),
) -> None:
    warn_questions(unknown, "line is", "lines are", "ignored: the dataset does not have the question")
    warn_questions(missing, "question is", "questions are", "without a hypothesis, counted as not evaluated")
    twice = "twice, as the official script counts them; this run counts them once"
    warn_questions(repeated, "question occurs", "questions occur", twice)
    warn_questions(unlabelled, "answer is", "answers are", "without a label, counted as not evaluated")


def warn_questions(questions: tuple[str, ...], singular: str, plural: str, what: str) -> None:
    """Count and name on standard error the questions that do not fit."""
    if questions:
        err.print(f"{count_of(len(questions), singular, plural)} {what}: {printable(listed(questions, 5))}")
