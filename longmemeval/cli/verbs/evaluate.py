"""`longmemeval evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.estimates import show_grading
from longmemeval.cli.main import continue_with
from longmemeval.cli.next_step import after_grading, command_line, same_with
from longmemeval.cli.options import Batch, Shown
from longmemeval.cli.output import err, out, print_answer, print_documents, print_lines, print_table, printable, warn
from longmemeval.cli.verbs.import_run import warn_questions
from longmemeval.core.options import MODEL, WHAT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count_of, listed, percent
from longmemeval.errors import HarnessError, NoAnswersError
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.results.options import AUDIT
from longmemeval.results.selection import Selection

if TYPE_CHECKING:
    from longmemeval.judges.audit import AuditedMean
    from longmemeval.pipeline.evaluate.agreement import AuditedScore, JudgeAgreement
    from longmemeval.pipeline.evaluate.several import JudgedRun
    from longmemeval.pipeline.merge.to_grade import GradingInput
    from longmemeval.results.graded.graded_run import Evaluation
    from longmemeval.settings import Folders
    from longmemeval.statistics.paired import Concordance


EXAMPLE = "longmemeval evaluate demo-hybrid --judge offline/lexical"
_DISPUTED = 10
"""Maximum number of disputed questions that are named."""


def evaluate(
    runs: shared.Runs,
    options: EvaluateOptions,
    selection: Selection,
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    batch: Batch,
    hypotheses: Annotated[Path | None, Flag(WHAT, "FILE", "JSONL file of answers to grade instead of a run.")] = None,
    judge: Annotated[
        list[str] | None,
        Flag(MODEL, "JUDGE", "Model, SET@MODEL or offline/lexical; repeatable [default: the benchmark's own]."),
    ] = None,
    audit: Annotated[list[str] | None, AUDIT] = None,
    dry_run: shared.DryRun = False,
    as_json: shared.Json = False,
) -> None:
    """Grade answers with a judge.

    The answers stay unchanged. Each judge writes its own file. docs/grading.md lists the judges.
    """
    from longmemeval.pipeline.evaluate.several import judge_run
    from longmemeval.pipeline.merge.to_grade import runs_to_grade, without_trace
    from longmemeval.report.documents import judged_document

    named_runs = bool(runs.run_ids) or runs.sweep is not None
    if named_runs and hypotheses is not None:
        raise typer.BadParameter("name a RUN or give --hypotheses FILE, not both")
    if not named_runs and hypotheses is None:
        raise _no_run(places)
    shown.apply()
    continue_with(with_provider=batch.batch)
    folders = places.folders()
    options = of_this_command(options, rates, batch, folders)
    named = [] if hypotheses else runs.named(folders)
    if dry_run:
        with without_trace(named, hypotheses, selection, folders) as temporary:
            run_ids = _warn_mismatches(runs_to_grade(named, hypotheses, options.dataset, selection, temporary))
            _show_estimates(run_ids, judge or [None], options, temporary, as_json=as_json)
        return
    run_ids = _warn_mismatches(runs_to_grade(named, hypotheses, options.dataset, selection, folders))
    failed, documents, manifest = False, list[dict[str, Any]](), None
    for run_id in run_ids:
        try:
            judged = judge_run(run_id, judge or [None], audit or (), options=options, folders=folders)
        except NoAnswersError as error:
            if len(run_ids) == 1:
                raise
            warn(str(error))
            failed = True
            continue
        _show_judged(judged, as_json=as_json)
        failed, manifest = failed or judged.failed, judged.evaluations[-1].manifest
        documents += [judged_document(judged)] if as_json else []
    if as_json:
        print_documents(documents)
    if failed:
        raise typer.Exit(1)
    if manifest and not as_json and hypotheses is None:
        out.next(*after_grading(runs.run_ids or run_ids, manifest, places))


def of_this_command(options: EvaluateOptions, rates: shared.Rates, batch: Batch, folders: "Folders") -> EvaluateOptions:
    """Return options of grading with the limits, the batch and the notes of a command."""
    from msgspec import structs

    return structs.replace(
        options,
        model_options=rates.on(options.model_options, folders),
        concurrency=rates.file.concurrency.judge or options.concurrency,
        batch=batch.options(),
        tell=lambda line: err.print(f"Note: {printable(line)}."),
    )


def _no_run(places: shared.Places) -> HarnessError:
    """Return an error with this command for the newest run that lacks a score, else the newest, or to make a run."""
    from longmemeval.results.listing import list_runs

    runs = [run for run in list_runs(places.folders().results_dir) if run.kind != "retrieval" and run.answered]
    if not runs:
        words = ("run", "--dataset", "sample", "--memory", "hybrid", "--model", "offline/extractive")
        command = command_line(*words, places=places)
        return HarnessError(
            "No run is named, and no answers are here yet",
            fix=f"Make a run with `{command}`, or grade other answers with --hypotheses FILE",
        )
    newest = next((run for run in runs if not run.scores), runs[0])
    return HarnessError(
        "No run is named",
        fix=f"Grade the newest with `{same_with(newest.run)}`, or other answers with --hypotheses FILE",
    )


def _warn_mismatches(to_grade: "GradingInput") -> Sequence[str]:
    """Return the ids of the runs to grade; warn about hypotheses without a question, and the other way round."""
    warn_questions(
        to_grade.unknown, "hypothesis is", "hypotheses are", "ignored: the dataset does not have the question"
    )
    warn_questions(to_grade.missing, "question is", "questions are", "without a hypothesis, counted as not evaluated")
    return to_grade.run_ids


def _show_estimates(
    run_ids: Sequence[str],
    judges: Sequence[str | None],
    options: "EvaluateOptions",
    folders: "Folders",
    *,
    as_json: bool,
) -> None:
    from longmemeval.pipeline.evaluate.estimate import estimate_grading

    estimates = [estimate_grading(judges, run_id, options=options, folders=folders) for run_id in run_ids]
    if as_json:
        print_documents(estimates)
        return
    for estimate in estimates:
        show_grading(estimate)


def _show_judged(judged: "JudgedRun", *, as_json: bool) -> None:
    """Print how a run was graded; with `as_json` only the answers without a label, on standard error."""
    if not as_json:
        for evaluation in judged.evaluations:
            show(evaluation)
        show_agreements(judged.agreements)
        show_audit(judged.audited)
    for evaluation in judged.evaluations:
        warn_unlabelled(evaluation)


def show(evaluation: "Evaluation") -> None:
    """Print the scores of one run, what it cost and how long it took."""
    from longmemeval.report.tables.comparison import evaluation_answer

    print_answer(evaluation_answer(evaluation))


def warn_unlabelled(evaluation: "Evaluation") -> None:
    """Report on standard error why answers have no label, naming the first few."""
    from longmemeval.judges.definition import rules_of

    judge = evaluation.grading.judge
    judged = evaluation.files.current_judgements(judge.id).values()
    errors = [f"  {judgement.question_id}: {judgement.error}" for judgement in judged if judgement.label is None]
    if errors:
        again = "" if rules_of(judge.model) else "; rerun the command to retry"
        err.print(f"{count_of(len(errors), 'answer')} could not be graded by {printable(judge.id)}{again}:")
        for line in errors[:5]:
            warn(line)


def show_agreements(agreements: "list[JudgeAgreement]") -> None:
    """Print the agreement of a run's judges, pair by pair."""
    for pair in agreements:
        if not pair.agreement.overall.n:
            out.print(printable(f"{pair.a} and {pair.b}: no answer has a label by both"))
            continue
        columns: list[Column[tuple[str, Concordance]]] = [
            Column("", lambda row: row[0], "text"),
            Column("agreed", lambda row: percent(row[1].agreed)),
            Column("Cohen's\nkappa", lambda row: None if row[1].kappa is None else f"{row[1].kappa:.2f}"),
            Column("n", lambda row: row[1].n),
        ]
        groups = {"overall": pair.agreement.overall, **pair.agreement.by_type}
        print_table(tabulate(f"{pair.a} and {pair.b}", columns, groups.items()))
        if disputed := pair.agreement.disputed:
            more = " (--json lists all)" if len(disputed) > _DISPUTED else ""
            out.print(f"Disputed: {printable(listed(disputed, _DISPUTED))}{more}")


def show_audit(audited: "list[AuditedScore]") -> None:
    """Print the scores with and without the questions whose gold label is disputed."""
    for audit in audited:
        columns: list[Column[tuple[str, AuditedMean, float | None]]] = [
            Column("", lambda row: row[0], "text"),
            Column(audit.metric, lambda row: percent(row[1].mean)),
            Column("n", lambda row: row[1].n),
            Column("without\ndisputed", lambda row: percent(row[1].undisputed_mean)),
            Column("n", lambda row: row[1].undisputed_n),
            Column("upper\nbound", lambda row: percent(row[2])),
        ]
        by_type = [(name, score, audit.ceiling.by_type[name]) for name, score in audit.by_type.items()]
        title = f"Audit {audit.audit}: {audit.disputed} of the gold answers are disputed, by {audit.judge}"
        print_table(tabulate(title, columns, [("overall", audit.score, audit.ceiling.overall), *by_type]))
    print_lines(dict.fromkeys(audit.about for audit in audited if audit.about))
    if audited:
        out.print("The audit is an opinion about the labels. The official score is over all questions.")
