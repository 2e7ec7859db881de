"""`import --format`: make runs from the result files of other harnesses.

Answers and labels are taken over unchanged. Such a run has no recalls, prompts, costs or times, and tables say so. A
question that the file leaves out counts as not evaluated, as everywhere.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_file, sha256_text, write_atomic
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import imported_identity
from longmemeval.measures.metrics import Metrics
from longmemeval.records import Judgement, Question
from longmemeval.results.formats.harness_files import HarnessAnswer, HarnessFormat, read_results
from longmemeval.results.formats.hypotheses import HypothesisLine, adopt_lines
from longmemeval.results.lines import judgements_file
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_metrics
from longmemeval.results.settings import HypothesesSettings, ImportedSettings, MemorySettings, ModelSettings
from longmemeval.settings import Folders

_ASKED_TWICE = "The data set asks every question of this file more than once, and no id says which one is meant"
_UNNAMED = "unnamed model"
"""The judge of a file that does not name its model."""


class HarnessImport(Struct, frozen=True):
    """The new run, and the mismatches between file and data set."""

    run_id: str
    answered: int
    memory: str
    model: str
    claimed: float | None
    """The score that the file itself claims, between 0 and 1, over its own questions."""
    unknown: tuple[str, ...]
    """Ids in the file whose question is not in the data set."""
    ambiguous: tuple[str, ...]
    """Ids in the file whose question the data set asks more than once, and that do not say which one is meant."""
    missing: tuple[str, ...]
    """Questions of the data set that the file does not answer: they count as not evaluated."""
    unlabelled: tuple[str, ...]
    """Answered questions without a label."""
    metrics: Metrics


def import_harness(
    file: Path,
    dataset: Dataset,
    format: HarnessFormat,
    *,
    cutoff: str | None = None,
    run_id: str | None = None,
    folders: Folders | None = None,
) -> HarnessImport:
    """Make a run from a result file of another harness; its labels become the judgements of an imported judge.

    A question is identified by its id if the data set has that id with the same text, else by its text: each harness
    numbers the questions of a conversation in its own way.

    Args:
        file: the file (`harness_files.py` says which).
        cutoff: see `read_results`.
        run_id: None: made from the file's name and a hash.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the file cannot be read or is of another shape, has two answers to one question, or none to a
            question of the data set.
    """
    folders = folders or Folders()
    results = read_results(file, format, cutoff=cutoff)
    matched, unknown, ambiguous = _match_questions(results.answers, dataset.questions())
    if not matched:
        what = f"No question of this file is in the data set '{dataset.name}'" if unknown else _ASKED_TWICE
        first, fix = (*unknown, *ambiguous)[0], "Name the data set of the file with --dataset"
        raise HarnessError(f"{what} (first: '{first}')", where=str(file), fix=fix)
    _check_once(matched, file)
    lines = [HypothesisLine(name, answer.hypothesis) for name, answer in matched]
    memory = MemorySettings(results.memory, format, {}) if results.memory else None
    digest = sha256_file(file)
    settings = ImportedSettings(
        hypotheses=HypothesesSettings(file.name, digest, format),
        unknown_questions=(*unknown, *ambiguous),
        memory=memory,
        model=ModelSettings(results.model) if results.model else None,
    )
    # The cutoff determines the run as much as the file does.
    adopted = adopt_lines(
        lines, file, f"{digest} {cutoff or ''}", settings, dataset, folders.results_dir, run_id=run_id
    )
    fractions = any(answer.credit not in (None, 0, 1) for _, answer in matched)
    judge = imported_identity(results.judge or _UNNAMED, harness=format, metric="score" if fractions else "accuracy")
    folder = folders.results_dir / adopted.run_id
    known = {name: answer for name, answer in matched if name in adopted.lines}
    judgements = [_judgement(name, answer, judge.id, fractions) for name, answer in known.items()]
    path = judgements_file(folder, judge.id)
    if not path.exists():
        write_atomic(path, b"".join(msgspec.json.encode(judgement) + b"\n" for judgement in judgements))
    files = RunFiles(folder)
    return HarnessImport(
        run_id=adopted.run_id,
        answered=len(adopted.lines),
        memory=results.memory,
        model=results.model,
        claimed=results.claimed,
        unknown=tuple(unknown),
        ambiguous=tuple(ambiguous),
        missing=adopted.missing,
        unlabelled=tuple(judgement.question_id for judgement in judgements if judgement.label is None),
        metrics=write_metrics(folders.results_dir, files, RunQuestions(files.manifest, dataset), judge),
    )


def _match_questions(
    answers: Iterable[HarnessAnswer], questions: Iterable[Question]
) -> tuple[list[tuple[str, HarnessAnswer]], list[str], list[str]]:
    """Return the answers with their question ids in the data set, and the file's ids of the other questions.

    Of the other ids, the first list has those of questions that are not in the data set, the second ambiguous ones.
    """
    by_text: dict[str, list[str]] = {}
    for question in questions:
        by_text.setdefault(_same(question.text), []).append(question.question_id)
    matched: list[tuple[str, HarnessAnswer]] = []
    unknown: list[str] = []
    ambiguous: list[str] = []
    for answer in answers:
        fitting = by_text.get(_same(answer.question), [])
        if len(fitting) > 1:
            # The data set asks this text more than once: harnesses number alike, but join parts of an id differently.
            alike = [name for name in fitting if _letters(name) == _letters(answer.question_id)]
            fitting = [answer.question_id] if answer.question_id in fitting else alike or fitting
        if len(fitting) == 1:
            matched.append((fitting[0], answer))
        else:
            (ambiguous if fitting else unknown).append(answer.question_id)
    return matched, unknown, ambiguous


def _check_once(matched: Iterable[tuple[str, HarnessAnswer]], file: Path) -> None:
    first: dict[str, tuple[str, float | None]] = {}
    for name, answer in matched:
        outcome = answer.hypothesis, answer.credit
        if first.setdefault(name, outcome) != outcome:
            raise HarnessError(
                f"Question '{name}' has two different answers or labels",
                where=str(file),
                fix="Keep the first attempt only: it is the one that counts",
            )


def _letters(identifier: str) -> str:
    return "".join(filter(str.isalnum, identifier))


def _same(text: str) -> str:
    return " ".join(text.split())


def _judgement(name: str, answer: HarnessAnswer, judge: str, fractions: bool) -> Judgement:
    return Judgement(
        question_id=name,
        label=None if answer.credit is None else answer.credit == 1,
        raw=answer.reply,
        judge_id=judge,
        prompt_sha256="",
        answer_sha256=sha256_text(answer.hypothesis),
        score=answer.credit if fractions else None,
        error="the harness gave no label" if answer.credit is None else "",
    )
