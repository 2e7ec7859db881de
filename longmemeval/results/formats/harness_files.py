"""Read result files of other harnesses into one shape, by question and for the whole run.

- `memorybench`, supermemoryai/memorybench: `report.json` of a run. The shape is `BenchmarkResult` of its
  `src/types/unified.ts` (commit 16c559f5).
- `amb`, vectorize-io/agent-memory-benchmark: `outputs/.../SPLIT.json`, gzipped too. The shape is `EvalSummary` of its
  `src/memory_bench/models.py` (03c77088).
- `mem0-benchmarks`, mem0ai/memory-benchmarks: the one file of all questions, `..._results_TIME.json`. The shape is what
  `benchmarks/*/run.py` writes in a public fork, Guanhuachen2003/memory-benchmarks (c47910a5); the original was not
    available.

Fields that are not named here are not read. A file of another shape is refused.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_file, sha256_text, write_atomic
from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import imported_identity
from longmemeval.measures.metrics import Metrics
from longmemeval.records import Judgement, Question
from longmemeval.results.formats.hypotheses import HypothesisLine, adopt_lines
from longmemeval.results.lines import judgements_file
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_metrics
from longmemeval.results.settings import HypothesesSettings, ImportedSettings, MemorySettings, ModelSettings
from longmemeval.settings import Folders

HarnessFormat = Literal["memorybench", "amb", "mem0-benchmarks"]
ImportFormat = Literal["official", "memorybench", "amb", "mem0-benchmarks"]
T = TypeVar("T")


class HarnessAnswer(Struct, frozen=True):
    """One question's answer and its grade."""

    question_id: str
    """Id of the question in the harness."""
    question: str
    hypothesis: str
    credit: float | None
    """Credit between 0 and 1; None if its judge gave no label."""
    reply: str = ""
    """The judge's reply."""


class HarnessResults(Struct, frozen=True):
    """The contents of a result file. A text is empty if the file does not give it."""

    memory: str
    model: str
    judge: str
    answers: list[HarnessAnswer]
    claimed: float | None
    """The score that the file itself claims, between 0 and 1."""


def read_results(file: Path, format: HarnessFormat, *, cutoff: str | None = None) -> HarnessResults:
    """Read a result file.

    Args:
        file: JSON, or gzipped JSON.
        format: the harness that wrote it.
        cutoff: the cutoff to read from a file with results at several numbers of memories, such as `top_50`.

    Raises:
        HarnessError: it cannot be read, is of another shape, holds no answer, or does not have that cutoff.
    """
    data, wrong = _bytes(file), ""
    try:
        found = _READERS[format](data, cutoff)
    except UnreadableError as error:
        wrong = str(error)
    except _Refused as error:
        raise HarnessError(str(error), where=str(file), fix=error.fix) from error
    else:
        if not found.answers:
            raise HarnessError("The file holds no answer", where=str(file))
        return found
    others = [name for name in _READERS if name != format and _fits(name, data)]
    fix = (
        f"It looks like --format {others[0]}" if others else f"docs/grading.md says which file --format {format} reads"
    )
    raise HarnessError(f"The file does not have the shape of {format}: {wrong}", where=str(file), fix=fix)


class _Refused(Exception):
    """The file has the right shape but cannot become a run."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


def _bytes(file: Path) -> bytes:
    try:
        data = file.read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HarnessError(f"The result file cannot be read: {reason}", where=str(file)) from error


def _fits(format: HarnessFormat, data: bytes) -> bool:
    try:
        _READERS[format](data, None)
    except UnreadableError:
        return False
    except _Refused:
        return True
    return True


class _Summary(Struct, frozen=True):
    accuracy: float


class _Evaluation(Struct, frozen=True, rename="camel"):
    question_id: str
    question: str
    hypothesis: str
    label: Literal["correct", "incorrect"]
    score: float
    explanation: str = ""


class _Report(Struct, frozen=True, rename="camel"):
    provider: str
    judge: str
    answering_model: str
    evaluations: list[_Evaluation]
    summary: _Summary | None = None


def _memorybench(data: bytes, cutoff: str | None) -> HarnessResults:
    report = decode_json(data, _Report)
    _no_cutoff(cutoff)
    answers = [
        HarnessAnswer(
            evaluation.question_id, evaluation.question, evaluation.hypothesis, evaluation.score, evaluation.explanation
        )
        for evaluation in report.evaluations
    ]
    claimed = report.summary.accuracy if report.summary else None
    return HarnessResults(report.provider, report.answering_model, report.judge, answers, claimed)


class _QueryResult(Struct, frozen=True):
    query_id: str
    query: str
    answer: str
    correct: bool
    judge_reason: str = ""
    score: float | None = None


class _EvalSummary(Struct, frozen=True):
    memory_provider: str
    results: list[_QueryResult]
    answer_llm: str | None = None
    judge_llm: str | None = None
    accuracy: float | None = None


def _amb(data: bytes, cutoff: str | None) -> HarnessResults:
    summary = decode_json(data, _EvalSummary)
    _no_cutoff(cutoff)
    answers = [
        HarnessAnswer(
            result.query_id,
            result.query,
            result.answer,
            float(result.correct) if result.score is None else result.score,
            result.judge_reason,
        )
        for result in summary.results
    ]
    models = summary.answer_llm or "", summary.judge_llm or ""
    return HarnessResults(summary.memory_provider, *models, answers, summary.accuracy)


class _AtCutoff(Struct, frozen=True):
    judgment: str
    score: float
    generated_answer: str
    reason: str = ""
    judge_raw: str = ""


class _JudgedQuestion(Struct, frozen=True):
    question_id: str
    question: str
    cutoff_results: dict[str, _AtCutoff] = {}


class _Metadata(Struct, frozen=True):
    mode: str = "answerer"
    answerer_model: str = ""
    judge_model: str = ""


class _Unified(Struct, frozen=True):
    metadata: _Metadata
    evaluations: list[_JudgedQuestion]
    metrics_by_cutoff: dict[str, dict[str, Any]]


def _mem0_benchmarks(data: bytes, cutoff: str | None) -> HarnessResults:
    unified = decode_json(data, _Unified)
    if unified.metadata.mode != "answerer":
        what = f"Its mode is '{unified.metadata.mode}': its judge graded what was retrieved, not answers"
        raise _Refused(what, "Import a file of the mode 'answerer'")
    labels = list(dict.fromkeys(label for evaluation in unified.evaluations for label in evaluation.cutoff_results))
    if cutoff is None and len(labels) == 1:
        cutoff = labels[0]
    if cutoff not in labels:
        has = f"The file holds answers at {listed(labels, 9)}" if labels else "The file holds no answer"
        raise _Refused(has, "Choose one with --cutoff" if labels else "Import a file that was answered and judged")
    answers = [
        HarnessAnswer(
            evaluation.question_id,
            evaluation.question,
            found.generated_answer,
            None if found.judgment == "ERROR" else found.score,
            found.judge_raw or found.reason,
        )
        for evaluation in unified.evaluations
        if (found := evaluation.cutoff_results.get(cutoff))
    ]
    overall: Mapping[str, Any] = unified.metrics_by_cutoff.get(cutoff, {}).get("overall", {})
    percent = overall.get("accuracy")
    claimed = percent / 100 if isinstance(percent, int | float) else None
    return HarnessResults(
        f"mem0 {cutoff}", unified.metadata.answerer_model, unified.metadata.judge_model, answers, claimed
    )


def _no_cutoff(cutoff: str | None) -> None:
    if cutoff is not None:
        raise _Refused("The files of this harness have no results at several cutoffs", "Leave out --cutoff")


_READERS: Mapping[HarnessFormat, Callable[[bytes, str | None], HarnessResults]] = {
    "memorybench": _memorybench,
    "amb": _amb,
    "mem0-benchmarks": _mem0_benchmarks,
}


# `import --format`: make runs from the result files of other harnesses.
#
# Answers and labels are taken over unchanged. Such a run has no recalls, prompts, costs or times, and tables say so.
# A question that the file leaves out counts as not evaluated, as everywhere.

_ASKED_TWICE = "The dataset asks every question of this file more than once, and no id says which one is meant"
_UNNAMED = "unnamed model"
"""The judge of a file that does not name its model."""


class HarnessImport(Struct, frozen=True):
    """The new run, and the mismatches between file and dataset."""

    run_id: str
    answered: int
    memory: str
    model: str
    claimed: float | None
    """The score that the file itself claims, between 0 and 1, over its own questions."""
    unknown: tuple[str, ...]
    """Ids in the file whose question is not in the dataset."""
    ambiguous: tuple[str, ...]
    """Ids in the file whose question the dataset asks more than once, and that do not say which one is meant."""
    missing: tuple[str, ...]
    """Questions of the dataset that the file does not answer: they count as not evaluated."""
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

    A question is identified by its id if the dataset has that id with the same text, else by its text: each harness
    numbers the questions of a conversation in its own way.

    Args:
        file: the file (`harness_files.py` says which).
        cutoff: see `read_results`.
        run_id: None: made from the file's name and a hash.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the file cannot be read or is of another shape, has two answers to one question, or none to a
            question of the dataset.
    """
    folders = folders or Folders()
    results = read_results(file, format, cutoff=cutoff)
    matched, unknown, ambiguous = _match_questions(results.answers, dataset.questions())
    if not matched:
        what = f"No question of this file is in the dataset '{dataset.name}'" if unknown else _ASKED_TWICE
        first, fix = (*unknown, *ambiguous)[0], "Name the dataset of the file with --dataset"
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
    """Return the answers with their question ids in the dataset, and the file's ids of the other questions.

    Of the other ids, the first list has those of questions that are not in the dataset, the second ambiguous ones.
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
            # The dataset asks this text more than once: harnesses number alike, but join parts of an id differently.
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
