"""Write the report on graded runs, as an HTML page or as tables in Markdown or LaTeX."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from longmemeval.core.arguments import checked
from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.options import ReportOptions
from longmemeval.report.text import (
    bibtex,
    comparison_latex,
    figures,
    latex_across,
    markdown,
    markdown_across,
    published_for,
)
from longmemeval.results.compared import in_order_named
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.settings import Folders

__all__ = ["ReportOptions", "render_report", "write_report"]

_ENDINGS = {"html": "html", "md": "md", "latex": "tex", "bibtex": "bib"}
_FIRST_LINES = {
    "html": "",
    "md": "<!-- longmemeval report -->\n",
    "latex": "% longmemeval report\n",
    "bibtex": "% longmemeval report\n",
}
"""The first line of each format, by which a later report recognises a file it may replace; a page has a header."""
_MARKS = [b'<p class="kind">longmemeval report</p>', *(line.encode() for line in _FIRST_LINES.values() if line)]
_HEAD_BYTES = 1 << 16


class WrittenReport(Struct, frozen=True):
    """The written report."""

    file: str
    bytes: int
    runs: int
    questions: int


@checked()
def write_report(
    run_ids: Sequence[str],
    output: Path | None = None,
    *,
    options: ReportOptions = ReportOptions(),
    folders: Folders | None = None,
    force: bool = False,
) -> WrittenReport:
    """Write a report on one or more runs on the same questions; the same files give the same bytes.

    Args:
        run_ids: ids of graded runs, in the order of display.
        output: the file to write; an earlier report is replaced. None: `report.html`, `report.md` or `report.tex` in
            the current folder.
        options: format, judge and content.
        folders: the folders; None: from the environment.
        force: replace the file even if it is not a report.

    Raises:
        HarnessError: a run does not exist or is not graded, the runs cannot be compared, the extra `report` is not
            installed, or the file exists and is not a report of longmemeval.
    """
    if options.format == "figures":
        return _write_figures(run_ids, output or Path("figures"), options, folders or Folders(), force=force)
    output = output or Path(f"report.{_ENDINGS[options.format]}")
    _check_replaceable(output, force=force)
    text, runs, questions = _rendered(run_ids, options, folders or Folders())
    data = (_FIRST_LINES[options.format] + text).encode()
    write_atomic(output, data)
    return WrittenReport(str(output), len(data), runs, questions)


def _write_figures(
    run_ids: Sequence[str], folder: Path, options: ReportOptions, folders: Folders, *, force: bool
) -> WrittenReport:
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HarnessError(
            "The folder already has files", where=str(folder), fix="Choose another folder with --output, or add --force"
        )
    graded = _graded(run_ids, options, folders, prompts=False)
    comparison = compare_runs(graded, folders, audits=options.audit)
    charts = figures(comparison, graded)
    for name, data in charts.items():
        write_atomic(folder / name, data)
    return WrittenReport(str(folder), sum(map(len, charts.values())), len(graded), len(comparison.questions))


def _graded(run_ids: Sequence[str], options: ReportOptions, folders: Folders, *, prompts: bool) -> list[Evaluation]:
    """Return the runs, the baseline first."""
    run_ids = in_order_named(run_ids, folders.results_dir, options.baseline)
    return load_graded(run_ids, folders, judge=options.judge, dataset=options.dataset, look_into_prompts=prompts)


def _is_report(file: Path) -> bool:
    """Return True if the file is an earlier report, or empty and therefore safe to replace."""
    with file.open("rb") as handle:
        head = handle.read(_HEAD_BYTES)
    return not head or any(mark in head for mark in _MARKS)


@checked()
def render_report(
    run_ids: Sequence[str], *, options: ReportOptions = ReportOptions(), folders: Folders | None = None
) -> str:
    """Return the report as text, in any format but `figures`; arguments and errors are those of `write_report`."""
    return _rendered(run_ids, options, folders or Folders())[0]


def _rendered(run_ids: Sequence[str], options: ReportOptions, folders: Folders) -> tuple[str, int, int]:
    """Return the text, and the numbers of runs and questions it is about."""
    graded = _graded(run_ids, options, folders, prompts=not options.across)
    if options.across:
        return _across(graded, options), len(graded), sum(run.metrics.overall.n for run in graded)
    if options.format == "bibtex":
        return bibtex(graded), len(graded), sum(run.metrics.overall.n for run in graded)
    comparison = compare_runs(graded, folders, audits=options.audit)
    return render_comparison(comparison, options), len(graded), len(comparison.questions)


def render_comparison(comparison: Comparison, options: ReportOptions) -> str:
    """Return the report on a comparison: the page, or tables in Markdown or LaTeX."""
    graded = list(comparison.evaluations)
    judge = None if options.published == "all" else graded[0].metrics.judge
    figures = published_for(graded[0].asked.dataset, judge) if options.published else ()
    if options.format == "html":
        from longmemeval.report.page.html import html_page

        return html_page(comparison, graded, full=options.full, published=figures)
    if options.format == "md":
        return markdown(comparison, figures)
    return comparison_latex(comparison, figures, columns=options.columns, style=options.latex_style)


def write_comparison(comparison: Comparison, output: Path, options: ReportOptions, *, force: bool = False) -> None:
    """Write the report on a comparison to a file.

    Raises:
        HarnessError: as `write_report` on the file and the extra `report`.
    """
    _check_replaceable(output, force=force)
    write_atomic(output, (_FIRST_LINES[options.format] + render_comparison(comparison, options)).encode())


def _check_replaceable(output: Path, *, force: bool) -> None:
    if not force and output.is_file() and not _is_report(output):
        raise HarnessError(
            "The file exists and was not written by `longmemeval report`",
            where=str(output),
            fix="Choose another with --output FILE, or add --force to replace it",
        )


def _across(graded: Sequence[Evaluation], options: ReportOptions) -> str:
    if options.format == "html":
        from longmemeval.report.page.html import across_page

        return across_page(graded)
    return markdown_across(graded) if options.format == "md" else latex_across(graded, options.latex_style)
