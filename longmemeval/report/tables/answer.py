"""Show an evaluation or a comparison in a terminal, in a notebook and in `str()`: the answer first."""

from collections.abc import Iterator

from longmemeval.core.tables.table import Table
from longmemeval.core.text.figures import percent
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.columns import corrected_text
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.compare.verdict import score_sentence
from longmemeval.report.tables import comparison as comparison_view
from longmemeval.report.tables.cells import abstention_lines, score_table, task_average_note
from longmemeval.report.tables.effort import both, effort_notes, footprint_line, latency_line, work_table
from longmemeval.report.tables.footnotes import caution_lines, comparison_notes, footnotes
from longmemeval.report.tables.memory_models import memory_model_table
from longmemeval.results.graded.graded_run import Evaluation

Answer = Iterator[str | Table]
"""Lines and tables from top to bottom; the first line is the answer, an empty line separates."""


def comparison_answer(
    comparison: Comparison,
    *,
    tables: bool = False,
    pairs: bool = False,
    notes: bool = False,
    questions: bool = False,
) -> Answer:
    """Yield the verdict, the table of runs with its main notes, the lost questions, and whatever else is requested.

    Args:
        tables: show all tables.
        pairs: show every pair of runs.
        notes: show all notes.
        questions: list the questions on which runs differ.
    """
    yield comparison.verdict.whole
    yield ""
    first, *others = comparison_view.comparison_tables(comparison, details=tables, pairs=pairs)
    yield first
    yield from caution_lines(comparison)
    yield from others
    if questions:
        for heading, ids in comparison_view.question_lists(comparison):
            yield f"{heading} ({len(ids)}): {', '.join(ids) or 'none'}"
    lost = comparison_view.digest_table(comparison)
    if lost.rows:
        yield ""
        yield lost
    if tables or notes:
        yield from run_id_lines(comparison)
    if notes:
        yield from comparison_notes(comparison)


def run_id_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the ids behind the names, where they differ from them."""
    for row in comparison.rows:
        if (name := comparison.names[row.run_id]) != row.run_id:
            yield f"{name}: {', '.join(row.run_ids)}"


def evaluation_answer(evaluation: Evaluation) -> Answer:
    """Yield the score in a sentence, scores by type, costs, latencies, and the notes below them."""
    metrics, manifest, summary = evaluation.metrics, evaluation.manifest, evaluation.summary
    yield score_sentence(metrics).text({})
    data = ", ".join(filter(None, [manifest.dataset["name"], summary.part]))
    title = f"{metrics.run}: {summary.memory}, {summary.model}, {data}, judged by {judge_name(metrics.judge)}"
    yield score_table(title, summary)
    yield from filter(None, [task_average_note(metrics, evaluation.asked.benchmark)])
    if summary.judge_check and not summary.judge_check.reason:
        yield f"Corrected for the judge's errors: {metrics.judge.metric} {corrected_text(summary.judge_check)}"
    yield from abstention_lines(metrics)
    yield work_table(summary.costs)
    model_use = memory_model_table([summary], [metrics.run])
    if model_use.rows:
        yield model_use
    yield latency_line(summary.latency)
    yield footprint_line(summary.footprint)
    if metrics.latency_ms.p50 is not None:
        yield f"Latency of the judge's calls, p50 / p95: {both(metrics.latency_ms)} ms"
    now = evaluation.grading
    also = "" if now.judge == metrics.judge else f", by which {now.judge.metric} is {percent(now.overall.accuracy)}"
    yield f"Judged now: {evaluation.newly_judged}; judge id: {now.judge.id}{also}"
    yield from footnotes([summary])
    yield from effort_notes([summary], shows_costs=True)
