"""Prepare a comparison for a paper: LaTeX tables with labels and notes, figures as SVG and PDF, BibTeX."""

from collections.abc import Sequence

from longmemeval import __version__
from longmemeval.core.tables.latex import LatexStyle, escape_latex, needs
from longmemeval.core.tables.latex import latex as latex_table
from longmemeval.core.tables.table import Table
from longmemeval.core.text.figures import listed
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.summary import pair_matrix
from longmemeval.report.plain import other_tables
from longmemeval.report.tables.comparison import runs_table, versus_table
from longmemeval.report.tables.footnotes import caution_lines, comparison_notes
from longmemeval.results.graded.graded_run import Evaluation

SIGNIFICANT = "†"


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
    remarks = [comparison.verdict.whole]
    remarks += [f"The same for all: {listed(constant, len(constant))}."] if constant else []
    remarks += [without_places(line).replace("▲ ▼", SIGNIFICANT) for line in caution_lines(comparison)]
    notes = map(without_places, comparison_notes(comparison))
    comments = [f"% {escape_latex(note)}" for note in notes if note not in remarks]
    tables = [("runs", runs), ("pairs", versus_table(comparison)), ("matrix", pair_matrix(comparison))]
    tables += [(f"more-{place}", table) for place, table in enumerate(other_tables(comparison, published), start=1)]
    parts = [
        latex_table(_daggers(table), remarks if name == "runs" else (), f"tab:longmemeval-{name}", style)
        for name, table in tables
        if table and table.rows
    ]
    return "\n\n".join([needs(style), *parts, "\n".join(comments)]).rstrip() + "\n"


def _runs(comparison: Comparison, chosen: Sequence[str]) -> tuple[Table, list[str]]:
    """Return the table of runs, and a text for each column left out because all runs have the same value."""
    table = runs_table(comparison, "paper")
    places = {title: place for place, title in enumerate(table.headings)}
    for title in chosen:
        if title not in places:
            raise HarnessError(f"--column: unknown column '{title}'", fix=nearest(title, places))
    if chosen:
        return table.only([0, *(places[title] for title in chosen)]), []
    constant: list[str] = []
    kept = [0]
    for title, place in list(places.items())[1:]:
        values = {row[place] for row in table.rows}
        if len(comparison.rows) > 1 and len(values) == 1 and title != comparison.metric:
            constant.append(f"{title} {values.pop()}")
        else:
            kept.append(place)
    return table.only(kept), constant


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
