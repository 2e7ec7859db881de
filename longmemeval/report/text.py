"""The report as text: Markdown, LaTeX and the summary of a job, with published figures."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from longmemeval import __version__
from longmemeval.core.secrets.redaction import hide
from longmemeval.core.tables import table as render
from longmemeval.core.tables.latex import LatexStyle, escape_latex, latex, needs
from longmemeval.core.tables.latex import latex as latex_table
from longmemeval.core.tables.table import Table, escape_markdown
from longmemeval.core.text.figures import listed, visible
from longmemeval.core.text.paths import without_places
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import judge_name
from longmemeval.llm.options import is_offline
from longmemeval.pipeline.claims.catalogue import Claim, all_claims
from longmemeval.pipeline.compare.baseline import AgainstBaseline, regression
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.summary import pair_matrix
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.comparison import (
    against_line,
    audit_tables,
    caution_lines,
    comparison_notes,
    digest_table,
    effort_tables,
    marks_line,
    pairs_line,
    published_table,
    repeats_table,
    runs_table,
    types_table,
    versus_table,
)
from longmemeval.results.graded.graded_run import Evaluation

# The report as Markdown or LaTeX tables, for notes and papers.


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
    """Return the table by ability of runs on different datasets, with its legend and notes."""
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
    tables = [types_table(comparison), *audit_tables(comparison)]
    tables += [*effort_tables(comparison), repeats_table(comparison), *others]
    return [table for table in (*tables, digest_table(comparison)) if table.rows]


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {render.escape_markdown(sentence)}" for sentence in sentences)


# Prepare a comparison for a paper: LaTeX tables with labels and notes, figures as SVG and PDF, BibTeX.

SIGNIFICANT = "†"


def comparison_latex(
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
    remarks += [f"Same for all: {listed(constant, len(constant))}."] if constant else []
    below = filter(None, [marks_line(comparison), *caution_lines(comparison)])
    remarks += [without_places(line).replace("▲ ▼", SIGNIFICANT) for line in below]
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
    return replace(table, rows=rows)


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


# Show a comparison in a GitHub workflow: a job summary in Markdown, and annotations as lines of the log.


def job_summary(
    comparison: Comparison, against: Sequence[AgainstBaseline] = (), published: Sequence[Claim] = ()
) -> str:
    """Return the summary in Markdown: a sentence on each run and its baseline, then the report's tables and notes."""
    verdicts = [f"**{_heading(result)}.** {escape_markdown(against_line(result))}" for result in against]
    return "\n\n".join([*verdicts, markdown(comparison, published)])


def write_summary(
    comparison: Comparison, against: Sequence[AgainstBaseline] = (), published: Sequence[Claim] = ()
) -> str:
    """Append the job summary to the file that the runner names, and return the text to print.

    That is the annotations; if no runner names a file (`GITHUB_STEP_SUMMARY`), the summary precedes them.
    """
    summary = hide(job_summary(comparison, against, published)) + "\n"
    lines = "".join(f"{line}\n" for line in annotations(comparison, against))
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(summary)
        return lines
    return summary + lines


def annotations(comparison: Comparison, against: Sequence[AgainstBaseline] = ()) -> list[str]:
    """Return the annotations: an error for each run worse than its baseline, a notice for each other, then warnings.

    Without a baseline, the notice is the comparison's verdict. Each annotation is one line, a workflow command of
    GitHub (https://docs.github.com/actions/reference/workflow-commands-for-github-actions).
    """
    lines = [_annotation(result) for result in against] or [_command("notice", "Verdict", comparison.verdict.whole)]
    return lines + [_command("warning", "Caution", caution) for caution in comparison.cautions]


def _annotation(result: AgainstBaseline) -> str:
    if worse := regression([result]):
        return _command("error", _heading(result), str(worse))
    return _command("notice", _heading(result), against_line(result))


def _heading(result: AgainstBaseline) -> str:
    return "Worse than the baseline" if result.worse else "Not worse than the baseline"


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={title}::{' '.join(visible(message).split()).replace('%', '%25')}"


# Find published figures to show beside one's own: the claims on a benchmark.


def published_for(dataset: Dataset, judge: JudgeIdentity | None = None) -> tuple[Claim, ...]:
    """Return the published figures on a dataset's variant if it is known, else all on its benchmark.

    Only figures of answers count, not those of retrieval. Figures that a judge of this harness could have given come
    first.

    Args:
        dataset: the dataset of one's own runs.
        judge: return only figures that this judge, with its metric, could have given; None: all.
    """
    claims = [claim for claim in all_claims() if claim.benchmark == dataset.benchmark and not claim.is_about_retrieval]
    claims = [claim for claim in claims if claim.value is not None or claim.by_group]
    if judge is not None:
        claims = [claim for claim in claims if _grades_alike(judge, claim)]
    shown = [claim for claim in claims if dataset.name in claim.catalogue] or claims
    return tuple(sorted(shown, key=lambda claim: not claim.graded_by))


def _grades_alike(judge: JudgeIdentity, claim: Claim) -> bool:
    """Return True if metric and model are the same, and the judge uses the benchmark's own prompts or is rule-based."""
    ruled = is_offline(judge.model)
    return (judge.metric, judge.model) == (claim.metric, claim.graded_by) and (judge.official or ruled)
