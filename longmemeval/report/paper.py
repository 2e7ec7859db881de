"""Prepare a comparison for a paper: LaTeX tables with labels and notes, figures as SVG and PDF, BibTeX."""

from collections.abc import Sequence

from longmemeval import __version__
from longmemeval.core.tables.latex import LatexStyle, escape_latex, needs
from longmemeval.core.tables.latex import latex as latex_table
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import listed
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.official_status import judge_name
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.comparison import Comparison, RunFigures
from longmemeval.report.page.data import against_table, figure_columns, notes
from longmemeval.report.page.summary import pair_matrix, shown_in
from longmemeval.report.plain import other_tables
from longmemeval.report.tables.cells import controls_apart
from longmemeval.report.tables.comparison import question_count, run_names
from longmemeval.report.tables.footnotes import short_notes, verdict_called
from longmemeval.results.graded.graded_run import Evaluation

SIGNIFICANT = "†"
_DAGGER = "† significantly other than the baseline, {}: p after Holm below 0.05; of the others no difference is shown."


def latex(
    comparison: Comparison, published: Sequence[Claim] = (), *, columns: Sequence[str] = (), style: LatexStyle = "plain"
) -> str:
    """Return the tables in the style of booktabs: each with a short caption and a label, notes below the first.

    Everything else that the figures rest on follows as comments.

    Args:
        published: figures that others have published, shown as a table of their own.
        columns: titles of the columns in the table of runs; empty: all in which the runs differ.
        style: `siunitx` aligns numbers at their decimal points.

    Raises:
        HarnessError: there is no such column.
    """
    runs, constant = _runs(comparison, columns)
    remarks = [verdict_called(comparison, run_names(comparison)).whole]
    if any(run.marks for run in comparison.runs):
        remarks.append(_DAGGER.format(shown_in(comparison)[0].name))
    remarks += [f"The same for all: {listed(constant, len(constant))}."] if constant else []
    remarks += map(without_places, short_notes(comparison, [run.name for run in shown_in(comparison)]))
    comments = [f"% {escape_latex(note)}" for note in notes(comparison) if note not in remarks]
    tables = [("runs", runs), ("pairs", against_table(comparison)), ("matrix", pair_matrix(comparison))]
    tables += [(f"more-{place}", table) for place, table in enumerate(other_tables(comparison, published), start=1)]
    parts = [
        latex_table(_daggers(table), remarks if name == "runs" else (), f"tab:longmemeval-{name}", style)
        for name, table in tables
        if table and table.rows
    ]
    return "\n\n".join([needs(style), *parts, "\n".join(comments)]).rstrip() + "\n"


def _runs(comparison: Comparison, chosen: Sequence[str]) -> tuple[Table, list[str]]:
    """Return the table of runs, and a text for each column left out because all runs have the same value."""
    names = run_names(comparison)
    score, *others = figure_columns(comparison)
    columns: list[Column[RunFigures]] = [
        Column("model", lambda run: run.summary.model, "text"),
        Column(score.title, lambda run: f"{score.value(run)}{f' {run.marks}' if run.marks else ''}"),
        *others,
    ]
    by_title = {column.title: column for column in columns}
    for title in chosen:
        if title not in by_title:
            raise HarnessError(f"--column: there is no column '{title}'", fix=nearest(title, by_title))
    constant: list[str] = []
    if chosen:
        columns = [by_title[title] for title in chosen]
    elif len(comparison.runs) > 1:
        values = {title: {column.value(run) for run in comparison.runs} for title, column in by_title.items()}
        constant = [f"{title} {value}" for title, (value, *rest) in values.items() if not rest and title != score.title]
        columns = [column for column in columns if len(values[column.title]) > 1 or column.title == score.title]
    first: list[Column[RunFigures]] = [Column("run", lambda run: names[run.summary.run_id], "text")]
    caption = f"{comparison.dataset}, {question_count(comparison)}"
    breaks = controls_apart([run.summary for run in comparison.runs])
    return tabulate(caption, [*first, *columns], comparison.runs, breaks=breaks), constant


def _daggers(table: Table) -> Table:
    """Return the table with daggers in place of the arrows of significant differences; the sign gives the direction."""
    rows = [[cell.replace(" ▲", SIGNIFICANT).replace(" ▼", SIGNIFICANT) for cell in row] for row in table.rows]
    return Table(table.title, table.columns, rows, table.breaks)


def bibtex(graded: Sequence[Evaluation]) -> str:
    """Return BibTeX entries for the runs' benchmarks, for judges that are not official, and for this harness."""
    entries = dict.fromkeys(run.asked.benchmark.citation for run in graded)
    judges = {run.metrics.judge.id: run.metrics.judge for run in graded if not run.metrics.judge.official}
    judge_entries = [
        f"@misc{{judge-{place},\n  title = {{{escape_latex(judge_name(judge))}, a judge of longmemeval}},\n"
        f"  note = {{Judge id {escape_latex(judge.id)}; not the benchmark's official judge}}\n}}"
        for place, judge in enumerate(judges.values(), start=1)
    ]
    harness = (
        "@software{longmemeval,\n  title = {longmemeval: an honest harness for memory systems of {LLM} agents},\n"
        f"  author = {{{{The longmemeval developers}}}},\n  version = {{{__version__}}}\n}}"
    )
    return "\n\n".join([*(entry for entry in entries if entry), *judge_entries, harness]) + "\n"


def figures(comparison: Comparison, graded: Sequence[Evaluation]) -> dict[str, bytes]:
    """Return the charts by file name: as SVG in light and dark colours, and as PDF.

    Raises:
        HarnessError: the extra `report` is not installed.
    """
    from longmemeval.report.charts.svg import alone, need_report_libraries, pdfs_beside
    from longmemeval.report.page.html import page_charts
    from longmemeval.report.page.templates import page_file

    need_report_libraries("A chart")
    style = page_file("palette.css")
    with pdfs_beside(style) as pdfs:
        charts = page_charts(comparison, list(graded))
    files = {f"{chart.name}.svg": alone(chart.svg, chart.title, style).encode() for chart in charts}
    files |= {f"{chart.name}-dark.svg": alone(chart.svg, chart.title, style, dark=True).encode() for chart in charts}
    return files | {f"{name}.pdf": data for name, data in pdfs.items()}
