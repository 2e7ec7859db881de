"""How the objects that Python users hold show themselves; `pipeline/` looks these functions up by name."""

from io import StringIO
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.options import ReportFormat, ReportOptions
from longmemeval.report.tables.answer import answer_of
from longmemeval.report.tables.layout import fit
from longmemeval.report.tables.table import Table
from longmemeval.report.text import visible
from longmemeval.report.write import write_report

_WIDTH = 100
"""Characters on a line where no terminal says how many."""
_FORMATS: dict[str, ReportFormat] = {".md": "md", ".tex": "latex"}


def comparison_text(comparison: Comparison, width: int = _WIDTH) -> str:
    """Return a comparison as the terminal prints it."""
    written = StringIO()
    console = Console(file=written, width=width, highlight=False, emoji=False, color_system=None)
    for one in answer_of(comparison, width):
        if isinstance(one, Table):
            _print_table(console, one)
        else:
            console.print(Text(visible(one)))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def comparison_report(comparison: Comparison, path: Path, *, force: bool) -> None:
    """Write the report on the runs of a comparison; the format is told by the file's ending."""
    first = comparison.evaluations[0]
    options = ReportOptions(format=_FORMATS.get(path.suffix, "html"), judge=first.metrics.judge.id)
    write_report([one.id for one in comparison.evaluations], path, options=options, where=first.where, force=force)


def _print_table(console: Console, table: Table) -> None:
    if table.title:
        console.print(Text(visible(table.title)))
    for block in fit(table, console.width).blocks:
        shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for index, (column, width) in enumerate(zip(block.table.columns, block.widths, strict=True)):
            right = index not in block.table.left
            shown.add_column(Text(column), justify="right" if right else "left", width=width, overflow="fold")
        for row in block.table.rows:
            shown.add_row(*(Text(visible(cell)) for cell in row))
        console.print(shown)
