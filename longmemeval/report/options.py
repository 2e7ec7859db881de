"""The options of a report."""

from typing import Annotated, Literal

from longmemeval.core.arguments import Options
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.tables.latex import LatexStyle
from longmemeval.results.options import AUDIT, BaselineRun, JudgeId, MovedDataset

ReportFormat = Literal["html", "md", "latex", "bibtex", "figures"]


class ReportOptions(Options, frozen=True):
    """The source and format of a report."""

    format: Annotated[ReportFormat, Flag(OUTPUT, "FORMAT")] = "html"
    """html (one page), md or latex (tables), bibtex (what to cite), figures (a folder of SVG and PDF)."""
    columns: Annotated[tuple[str, ...], Flag(OUTPUT, "TITLE", name="--column")] = ()
    """LaTeX: a column of the table of runs; repeat it [default: all that differ]."""
    latex_style: Annotated[LatexStyle, Flag(OUTPUT, "STYLE")] = "plain"
    """LaTeX: plain, or siunitx, which aligns numbers at their points."""
    judge: JudgeId = None
    """Id of the judge, or a beginning of it; None: the official judge where it graded, else the newest."""
    dataset: MovedDataset = None
    """Where the data is now, if it has moved."""
    baseline: BaselineRun = None
    """What the others are compared with; None: the first run."""
    full: Annotated[bool, Flag(OUTPUT)] = False
    """Cut no text in the page, whatever its size."""
    published: bool | Literal["all"] = False
    """Show published figures too, apart from one's own: with the same judge and metric, or `all` on the benchmark."""
    audit: Annotated[tuple[str, ...], AUDIT] = ()
    """Audits of gold labels: names (docs/grading.md) or JSON files."""
    across: Annotated[bool, Flag(OUTPUT)] = False
    """One table by ability, for runs on different datasets.

    Nothing else is then in the report.
    """
