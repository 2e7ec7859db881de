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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct

from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import HarnessError

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
