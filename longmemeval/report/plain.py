"""The report as Markdown or LaTeX tables, for notes and papers."""

from collections.abc import Sequence

from longmemeval.core.tables import table as render
from longmemeval.core.tables.latex import LatexStyle, latex, needs
from longmemeval.core.tables.table import Table
from longmemeval.core.text.paths import without_places
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.summary import pair_matrix
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.comparison import (
    digest_table,
    effort_tables,
    pairs_line,
    published_table,
    repeats_table,
    runs_table,
    types_table,
    versus_table,
)
from longmemeval.report.tables.footnotes import comparison_notes
from longmemeval.results.graded.graded_run import Evaluation


def markdown(comparison: Comparison, published: Sequence[Claim] = ()) -> str:
    """Return the tables, the notes below them, and the differences between runs."""
    parts = [
        f"# {render.escape_markdown(comparison.dataset)}",
        render.escape_markdown(comparison.verdict.whole),
    ]
    parts += [
        render.markdown(table) for table in (runs_table(comparison, "paper"), *other_tables(comparison, published))
    ]
    parts += [_bullets(list(map(without_places, comparison_notes(comparison))))]
    if comparison.pairs:
        parts += [render.escape_markdown(pairs_line(comparison))]
        parts += [render.markdown(table) for table in (versus_table(comparison), pair_matrix(comparison)) if table]
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
    others = [published_table(published)] if published else []
    tables = [types_table(comparison), *effort_tables(comparison), repeats_table(comparison), *others]
    return [table for table in (*tables, digest_table(comparison)) if table.rows]


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {render.escape_markdown(sentence)}" for sentence in sentences)
