"""Read a run for its figures: everything printed is recomputed from files that pass their checks."""

from pathlib import Path

import msgspec
from msgspec import structs

from longmemeval.core.files import write_atomic
from longmemeval.errors import IntegrityError
from longmemeval.judges.definition import rules_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.metrics import Metrics, compute_metrics
from longmemeval.records import usage_of
from longmemeval.results.index import record_score
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checks import (
    check_answers,
    check_files,
    check_judgements,
    check_labels,
    check_scores,
    outdated,
    refuse,
)
from longmemeval.results.settings import ImportedSettings

_REMEDY_FOR_SCORES = (
    "Restore it from a copy. Scores alone can be made again: delete their file and run `longmemeval evaluate`"
)


def read_run(files: RunFiles) -> RunFiles:
    """Check the files of a run against its manifest, and return them.

    Args:
        files: files of any run; one of rankings has no answers.

    Raises:
        IntegrityError: answers, prompts, rankings or judgements were changed since the run; names the file.
        HarnessError: the manifest is of a newer format.
    """
    refuse(files, check_files(files))
    refuse(files, check_answers(files))
    for judge_id in files.judge_ids:
        refuse(files, check_judgements(files, judge_id))
    return files


def recompute_scores(files: RunFiles, asked: RunQuestions, stored: Metrics, *, grown: bool = False) -> Metrics:
    """Return the scores of one judge, recomputed from the files of a run.

    Args:
        asked: its questions and their gold.
        stored: its scores in `metrics/`.
        grown: True if answers or labels may have been added since; `evaluate` scores them.

    Raises:
        IntegrityError: the scores, or labels, do not follow from the files; names the file.
    """
    again = metrics_of(files, asked, stored.judge)
    # Labels first: scores that were changed to fit them are not the cause.
    refuse(files, check_labels(files, stored.judge, asked))
    refuse(files, check_scores(files, stored, again), _REMEDY_FOR_SCORES)
    older = outdated(files, stored, again)
    if older is not None and not grown:
        run_id = files.folder.name
        raise IntegrityError(
            f"The scores of run '{run_id}' are not those of its files: {older}",
            where=str(files.folder),
            fix=_evaluate_again(run_id, stored.judge),
        )
    return again


def _evaluate_again(run_id: str, judge: JudgeIdentity) -> str:
    if rules_of(judge.model):
        return f"Run `longmemeval evaluate {run_id} --judge {judge.model}`"
    return f"Run `longmemeval evaluate {run_id}` with this judge ({judge_name(judge)})"


def metrics_of(files: RunFiles, asked: RunQuestions, judge: JudgeIdentity) -> Metrics:
    """Return the scores of one judge, computed from the stored judgements and answers alone."""
    answers, journal = files.answers.values(), files.judged(judge.id)
    settings = asked.manifest.settings
    metrics = compute_metrics(
        asked.golds(),
        files.current_judgements(judge.id),
        judge,
        run=asked.manifest.run_id,
        haystacks=asked.units,
        hypotheses={answer.question_id: answer.hypothesis for answer in answers if answer.status == "ok"},
        times=settings.repeated_questions if isinstance(settings, ImportedSettings) else None,
        top_scores={answer.question_id: answer.top_score for answer in answers},
        types=asked.benchmark.types,
    )
    return structs.replace(
        metrics,
        # Includes calls that failed before they were repeated.
        usage=usage_of(journal.records),
        judgements_sha256=journal.sha256,
        answered=sum(answer.status == "ok" for answer in answers),
    )


def write_metrics(results_dir: Path, files: RunFiles, asked: RunQuestions, judge: JudgeIdentity) -> Metrics:
    """Compute the scores of one judge and write `metrics/<judge_id>.json` and the line of the index."""
    metrics = write_scores(files, asked, judge)
    record_score(results_dir, asked.manifest, metrics, asked.part, asked.protocol_note(metrics.judge.official))
    return metrics


def write_scores(files: RunFiles, asked: RunQuestions, judge: JudgeIdentity) -> Metrics:
    """Compute the scores of one judge and write `metrics/<judge_id>.json`."""
    metrics = metrics_of(files, asked, judge)
    path = files.folder / "metrics" / f"{judge.id}.json"
    write_atomic(path, msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n")
    files.scored(metrics)
    return metrics
