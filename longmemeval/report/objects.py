"""How the objects that Python users hold show themselves; `pipeline/` looks these functions up by name."""

from pathlib import Path

from longmemeval.core.tables import render
from longmemeval.core.tables.table import Table
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.options import ReportFormat, ReportOptions
from longmemeval.report.tables.answer import answer_of
from longmemeval.report.write import write_report

_WIDTH = 100
"""Characters on a line where no terminal says how many."""
_FORMATS: dict[str, ReportFormat] = {".md": "md", ".tex": "latex"}


def comparison_text(comparison: Comparison, width: int = _WIDTH) -> str:
    """Return a comparison as the terminal prints it."""
    shown = [
        render.text(one, width) if isinstance(one, Table) else render.wrapped(one, width)
        for one in answer_of(comparison, width)
    ]
    return "\n".join(line.rstrip() for one in shown for line in one.splitlines() or [""])


def comparison_report(comparison: Comparison, path: Path, *, force: bool) -> None:
    """Write the report on the runs of a comparison; the format is told by the file's ending."""
    first = comparison.evaluations[0]
    options = ReportOptions(format=_FORMATS.get(path.suffix, "html"), judge=first.metrics.judge.id)
    write_report([one.id for one in comparison.evaluations], path, options=options, where=first.where, force=force)
