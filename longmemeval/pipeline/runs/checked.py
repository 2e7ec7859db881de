"""Reading a run for its figures: nothing is printed that was not made again from files that hold."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from longmemeval.errors import IntegrityError
from longmemeval.evaluation.judges.standing import judge_name
from longmemeval.evaluation.metrics import Metrics
from longmemeval.pipeline.runs.answers import ANSWERS, current_answers
from longmemeval.pipeline.runs.asked import AskedQuestions
from longmemeval.pipeline.runs.checks import (
    check_answers,
    check_files,
    check_judgements,
    check_labels,
    check_scores,
    outdated,
    refuse,
)
from longmemeval.pipeline.runs.journal import read_journal
from longmemeval.pipeline.runs.manifest import RunManifest, read_manifest
from longmemeval.pipeline.runs.scores import metrics_from_files
from longmemeval.records import Answer


class CheckedRun(Struct, frozen=True):
    """A run whose journals are those that it left."""

    folder: Path
    manifest: RunManifest
    records: list[Answer]
    """All lines of `answers.jsonl`."""
    answers: dict[str, Answer]
    """The answer that counts, by question id."""


def read_run(folder: Path) -> CheckedRun:
    """A run with its answers, checked against its manifest.

    Args:
        folder: the run's folder; one of rankings has no answers.

    Raises:
        IntegrityError: answers, prompts, rankings or judgements are not those that the run left, with the file's name.
        HarnessError: the manifest is of a newer format.
    """
    manifest = read_manifest(folder)
    refuse(folder, check_files(folder, manifest))
    records = read_journal(folder / ANSWERS, Answer)
    answers = current_answers(records)
    refuse(folder, check_answers(manifest, records, answers))
    for file in sorted((folder / "judgements").glob("*.jsonl")):
        refuse(folder, check_judgements(folder, file.stem, answers))
    return CheckedRun(folder, manifest, records, answers)


def made_again(run: CheckedRun, asked: AskedQuestions, stored: Metrics, *, grown: bool = False) -> Metrics:
    """The scores of one judge as the files of a run give them.

    Args:
        run: the run.
        asked: its questions and their gold.
        stored: the scores that stand in `metrics/`.
        grown: whether answers or labels may have been added since; `evaluate` scores them.

    Raises:
        IntegrityError: the scores, or labels, are not those that the files give, with the file's name.
    """
    again = metrics_from_files(run.folder, asked, stored.judge, run.answers)
    refuse(run.folder, _score_checks(run, asked, stored, again))
    older = outdated(run.folder, stored, again)
    if older is not None and not grown:
        raise IntegrityError(
            f"The scores of run '{run.folder.name}' are not those of its files: {older}",
            where=str(run.folder),
            fix=f"Run `longmemeval evaluate {run.folder.name}` with this judge ({judge_name(stored.judge)})",
        )
    return again


def _score_checks(run: CheckedRun, asked: AskedQuestions, stored: Metrics, again: Metrics) -> Iterator[str | None]:
    # Labels first: scores that were changed to fit them are not the cause.
    yield from check_labels(run.folder, stored.judge, asked, run.answers)
    yield from check_scores(run.folder, stored, again)
