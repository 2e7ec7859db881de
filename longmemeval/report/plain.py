"""The report as Markdown or LaTeX tables, for notes and papers."""

from collections.abc import Sequence

from longmemeval.core.tables import render
from longmemeval.core.tables.latex import LatexStyle, latex, needs
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import bounds, percent
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.data import against_table, figures_table, notes, pairs_line
from longmemeval.report.page.summary import pair_matrix
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.comparison import digest_table, published_table, repeats_table, run_names
from longmemeval.report.tables.effort import cost_table, footprint_table, latency_table
from longmemeval.report.tables.footnotes import verdict_called
from longmemeval.report.tables.memory_models import memory_model_table
from longmemeval.results.graded.graded_run import Evaluation, RunSummary


def markdown(comparison: Comparison, published: Sequence[Claim] = ()) -> str:
    """Return the tables, the notes below them, and the differences between runs."""
    parts = [
        f"# {render.escape_markdown(comparison.dataset)}",
        render.escape_markdown(verdict_called(comparison, run_names(comparison)).whole),
    ]
    parts += [render.markdown(table) for table in (figures_table(comparison), *other_tables(comparison, published))]
    parts += [_bullets(notes(comparison))]
    if comparison.pairs:
        parts += [render.escape_markdown(pairs_line(comparison))]
        parts += [render.markdown(table) for table in (against_table(comparison), pair_matrix(comparison)) if table]
    return "\n\n".join(parts) + "\n"


def markdown_across(graded: Sequence[Evaluation]) -> str:
    """Return the table by ability of runs on different data sets, with its legend and notes."""
    table = ability_table(graded)
    parts = [f"# {render.escape_markdown(table.title)}", render.markdown(table.with_title(""))]
    return "\n\n".join([*parts, _bullets(ability_legend(graded)), _bullets(ability_notes(graded))]) + "\n"


def latex_across(graded: Sequence[Evaluation], style: LatexStyle = "plain") -> str:
    """Return the table by ability in the style of booktabs, with its legend and notes below it."""
    lines = [". ".join(ability_legend(graded)) + ".", *ability_notes(graded)]
    return f"{needs(style)}\n\n{latex(ability_table(graded), lines, 'tab:longmemeval-across', style)}\n"


def other_tables(comparison: Comparison, published: Sequence[Claim]) -> list[Table]:
    """Return the tables that have rows: types, costs, latencies, repeats, published figures, lost questions."""
    called = run_names(comparison)
    names = list(called.values())
    summaries = [run.summary for run in comparison.runs]
    types = _types(names, summaries)
    costs = cost_table(summaries, names, [run.cheaper_from for run in comparison.runs])
    effort = [costs, *(table_of(summaries, names) for table_of in (footprint_table, latency_table, memory_model_table))]
    repeats = repeats_table(comparison, called)
    others = published_table(published) if published else None
    lost = digest_table(comparison.digest, called)
    return [table for table in (types, *effort, repeats, others, lost) if table and table.rows]


def _types(names: Sequence[str], summaries: Sequence[RunSummary]) -> Table:
    def column(name: str, summary: RunSummary) -> Column[str]:
        return Column(name, lambda name: _score(summary.metrics.by_type.get(name)))

    types = dict.fromkeys(name for summary in summaries for name in summary.metrics.by_type)
    title = "By question type, with 95 % interval"
    if len(names) > len(types):  # Fewer columns fit a page better.
        by_run: list[Column[tuple[str, RunSummary]]] = [
            Column("run", lambda row: row[0], "text"),
            *map(_type_column, types),
        ]
        return tabulate(title, by_run, zip(names, summaries, strict=True))
    columns: list[Column[str]] = [Column("question type", str, "text"), *map(column, names, summaries)]
    return tabulate(title, columns, types)


def _type_column(name: str) -> Column[tuple[str, RunSummary]]:
    return Column(name, lambda row: _score(row[1].metrics.by_type.get(name)))


def _score(score: Score | None) -> str | None:
    return f"{percent(score.accuracy)} {bounds(score.interval)}" if score else None


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {render.escape_markdown(sentence)}" for sentence in sentences)
