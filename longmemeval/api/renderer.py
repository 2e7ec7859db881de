"""Show the objects that Python users hold: what the methods of `Showing` do."""

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

from longmemeval.api.run import Run
from longmemeval.core.installation import install_command
from longmemeval.core.tables import table as render
from longmemeval.core.tables.latex import latex as latex_table
from longmemeval.core.tables.latex import needs
from longmemeval.core.tables.picture import Picture
from longmemeval.core.tables.table import Table, frame
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError, nearest, needed
from longmemeval.pipeline.compare.columns import RUN_COLUMNS, columns_of
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.status import RunWatch
from longmemeval.report.documents import comparison_document, evaluation_document
from longmemeval.report.options import ReportFormat, ReportOptions
from longmemeval.report.tables.comparison import Answer, comparison_answer, evaluation_answer
from longmemeval.report.tables.runs import latency_line, work_table
from longmemeval.report.text import comparison_latex as comparison_latex
from longmemeval.report.write import write_comparison as write_report_on
from longmemeval.results.formats.question_frame import Form, question_columns, question_rows
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.judge_checks import control_of
from longmemeval.results.lines import failures_of
from longmemeval.results.run_questions import RunQuestions, dataset_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from longmemeval.report.charts.charts import Chart

Held = Run | Evaluation | Comparison
_WIDTH = 100
"""Characters on a line if no terminal gives its width."""
_FORMATS: dict[str, ReportFormat] = {".md": "md", ".tex": "latex"}
_TYPES: dict[Form, str] = {"text": "object", "integer": "Int64", "number": "float64", "truth": "boolean"}
"""The types of a data frame's columns; a column keeps its type even if all of its values are unknown."""


def text(held: Held) -> str:
    """Return the text for a terminal, as wide as the terminal is."""
    width = get_terminal_size((_WIDTH, 0)).columns
    parts = _answer(held)
    shown = [render.text(part, width) if isinstance(part, Table) else render.wrapped(part, width) for part in parts]
    return "\n".join(line.rstrip() for part in shown for line in part.splitlines() or [""])


def html(held: Held) -> str:
    """Return the HTML for a notebook: the answer in bold, then paragraphs and tables."""
    first, *others = (part for part in _answer(held) if part)
    lines = [f"<p><b>{render.escape_html(str(first))}</b></p>"]
    lines += [render.html(part) if isinstance(part, Table) else f"<p>{render.escape_html(part)}</p>" for part in others]
    return "\n".join(lines)


def _answer(held: Held) -> Answer:
    if isinstance(held, Comparison):
        return comparison_answer(held)
    return evaluation_answer(held) if isinstance(held, Evaluation) else _run_answer(held)


def _run_answer(run: Run) -> Answer:
    """Yield how many questions a run has answered with which memory and model, its costs, and its latencies."""
    settings = run.manifest.settings
    answered = sum(answer.status == "ok" for answer in run.answers.values())
    by = ", ".join(filter(None, [settings.memory_name, settings.model_name]))
    of = count_of(len(run.manifest.question_ids), "question")
    failures = failures_of(run.answers.values(), len(run.manifest.question_ids))
    yield from filter(None, [f"{run.id}: {failures.told}" if failures.questions else run.manifest.error])
    yield f"{run.id}: {by} on {run.manifest.dataset['name']}, {answered:,} of {of} answered ({run.status})."
    yield work_table(run.cost)
    yield latency_line(run.latency)


def document(held: Held) -> dict[str, Any]:
    """Return the document that `--json` prints, as plain data."""
    if isinstance(held, Comparison):
        shown: object = comparison_document(held)
    elif isinstance(held, Evaluation):
        shown = evaluation_document(held.summary)
    else:
        shown = RunWatch(held.files.folder).look()
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shown))
    return plain


def latex(held: Held) -> str:
    """Return the tables in the style of booktabs."""
    if isinstance(held, Comparison):
        return comparison_latex(held)
    tables = [latex_table(table) for table in _answer(held) if isinstance(table, Table)]
    return "\n\n".join([needs(), *tables]) + "\n"


def data_frame(held: Held) -> "DataFrame":
    """Return a row per run for a comparison, otherwise a row per question."""
    what = "A data frame needs the pandas library, which is not installed"
    with needed(what, f"Run: {install_command('pandas')}"):
        from pandas import DataFrame
    if isinstance(held, Comparison):
        return DataFrame(frame(columns_of(RUN_COLUMNS, held, "frame"), held.rows))
    if isinstance(held, Evaluation):
        columns, rows = question_columns(held), question_rows(held)
    else:
        run_questions = RunQuestions(held.manifest, dataset_of(held.manifest, None, held.folders))
        columns, rows = question_columns(held.files), question_rows(held.files, run_questions.questions)
    types = {column.title: _TYPES[column.form] for column in columns}
    return DataFrame(rows, columns=list(types), dtype="object").astype(types)


def picture(held: Held, chart: str) -> Picture:
    """Return the chart called `chart`; if empty, the first one."""
    from longmemeval.report.charts.svg import need_report_libraries

    need_report_libraries("A chart")

    charts = {drawing.name: drawing for drawing in _charts(held)}
    if not charts:
        raise HarnessError("Nothing to draw: no model has answered a question here")
    if chart and chart not in charts:
        more = "; a run has more when it is graded" if isinstance(held, Run) else ""
        raise HarnessError(f"plot('{chart}'): unknown chart", fix=nearest(chart, charts) + more)
    return (charts[chart] if chart else next(iter(charts.values()))).alone()


def _charts(held: Held) -> "list[Chart]":
    from longmemeval.report.charts.of_comparison import latency_ridges
    from longmemeval.report.charts.svg import Shown, looks_of
    from longmemeval.report.page.html import page_charts

    if isinstance(held, Run):
        settings = held.manifest.settings
        kind = (control_of(settings) is not None, settings.reads_gold)
        drawn = latency_ridges([held.answers], [Shown("", looks_of([settings.memory_name], [kind])[0])])
        return [drawn] if drawn else []
    if isinstance(held, Evaluation):
        return page_charts(compare_runs([held], held.folders), [held])
    return page_charts(held, list(held.evaluations))


def write_comparison(comparison: Comparison, path: Path, force: bool) -> None:
    """Write the report on a comparison; the file's suffix determines the format."""
    options = ReportOptions(format=_FORMATS.get(path.suffix, "html"))
    write_report_on(comparison, path, options, force=force)
