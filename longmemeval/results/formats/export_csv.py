"""`export --format csv`: one row per question, for spreadsheets and data frames."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.measures.losses import evidence_recall
from longmemeval.records import Answer, Gold, Judgement
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.graded.losses import StoredSessions, losses
from longmemeval.settings import Folders, folders

Cell = str | int | float | bool | None

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class CsvExport(Struct, frozen=True):
    """The file that was written."""

    file: str
    questions: int
    judges: tuple[str, ...]
    """Judge ids, in the order of their columns."""
    part: str = ""
    """Number of questions out of the total, and how they were chosen; empty for the whole data set."""
    protocol_note: str = ""
    """The consequence of the benchmark's own protocol for the scores; empty without one."""


def export_csv(
    run_id: str, output: Path | None = None, *, dataset: str | None = None, where: Folders | None = None
) -> CsvExport:
    """Write `<run_id>.csv`: RFC 4180, UTF-8, one row per selected question, answered or not.

    Columns: `question_id`, `question_type`, `ability`, `question`, `question_date`, `gold`, `unanswerable`,
    `hypothesis`, `status`; `label <judge>` and `score <judge>` for each judge; `lost_at` (by the official judge, else
    the newest); `recalled`, `cut` (messages), `evidence_recall`, `top_score`, `prompt_tokens` (as sent, by the run's
    counter), `completion_tokens`, `cost_usd`, `latency_ms`, `recall_ms`, `error`. Unknown values are empty.

    A spreadsheet would read text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula: an
    apostrophe is put before it. Control characters other than tabs and line breaks are written as escapes.

    Args:
        run_id: id of a graded run.
        output: the folder for the file; None: `csv` in the run's folder.
        dataset: path or name of the data set with the gold, if it has moved.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run, it is not graded or holds rankings, or its data set is missing.
    """
    where = where or folders()
    (run,) = load_graded([run_id], where, dataset=dataset)
    judges = [metrics.judge.id for metrics in run.files.metrics]
    rows = _rows(run, judges, where)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]) if rows else ["question_id"])
    writer.writeheader()
    writer.writerows({name: _protected(cell) for name, cell in row.items()} for row in rows)
    file = (output or run.files.folder / "csv") / f"{run_id}.csv"
    write_atomic(file, buffer.getvalue().encode())
    return CsvExport(str(file), len(rows), tuple(judges), run.asked.part, run.summary.protocol_note)


def _rows(run: Evaluation, judges: Sequence[str], where: Folders) -> list[dict[str, Cell]]:
    golds = run.asked.golds()
    stages = losses(run, StoredSessions(where)).stages
    judged = {judge: run.files.current_judgements(judge) for judge in judges}
    rows = []
    for gold in golds:
        question_id = gold.question_id
        verdicts = {judge: judgements.get(question_id) for judge, judgements in judged.items()}
        answer = run.answers.get(question_id)
        rows.append(
            _question(run, gold, answer)
            | _labels(verdicts)
            | {"lost_at": stages[question_id]}
            | (_effort(gold, answer) if run.manifest.kind == "run" else {})
            | {"error": answer.error if answer else None}
        )
    return rows


def _question(run: Evaluation, gold: Gold, answer: Answer | None) -> dict[str, Cell]:
    question = run.asked.questions[gold.question_id]
    return {
        "question_id": gold.question_id,
        "question_type": gold.question_type,
        "ability": run.asked.benchmark.types.ability_of(gold),
        "question": question.text,
        "question_date": question.date_text,
        "gold": gold.answer,
        "unanswerable": gold.abstention,
        "hypothesis": answer.hypothesis if answer else None,
        "status": answer.status if answer else "missing",
    }


def _labels(verdicts: dict[str, Judgement | None]) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for judge, judgement in verdicts.items():
        cells[f"label {judge}"] = judgement.label if judgement else None
        cells[f"score {judge}"] = judgement.score if judgement else None
    return cells


def _effort(gold: Gold, answer: Answer | None) -> dict[str, Cell]:
    """Return the cells on the work of memory and model; known only of runs of this harness."""
    return {
        "recalled": len(answer.recall_ids) if answer else None,
        "cut": len(answer.cut_ids) if answer else None,
        "evidence_recall": evidence_recall(gold, answer),
        "top_score": answer.top_score if answer else None,
        "prompt_tokens": answer.prompt_tokens if answer else None,
        "completion_tokens": answer.usage.completion_tokens if answer else None,
        "cost_usd": answer.usage.cost_usd if answer and not answer.usage.unpriced_calls else None,
        "latency_ms": answer.latency_ms if answer else None,
        "recall_ms": answer.recall_ms if answer else None,
    }


def _protected(cell: Cell) -> Cell:
    """Return text that no spreadsheet reads as a formula, and no terminal as a control sequence."""
    if not isinstance(cell, str):
        return cell
    shown = _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), cell)
    return f"'{shown}" if shown.startswith(_FORMULA_SIGNS) else shown
