"""The answer of a comparison as a terminal shows it: the verdict, the table, its main notes, what was lost."""

from collections.abc import Iterator

from longmemeval.core.tables.layout import legend
from longmemeval.core.tables.table import Table
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.tables.comparison import comparison_tables, digest_table, run_letters
from longmemeval.report.tables.footnotes import marks_line, short_notes


def answer_of(comparison: Comparison, width: int) -> Iterator[str | Table]:
    """Yield lines and tables from top to bottom for `width` characters; an empty line sets apart."""
    letters = run_letters(comparison, width)
    yield comparison.verdict.text
    yield ""
    yield comparison_tables(comparison, width)[0]
    yield from filter(None, [*legend(letters), marks_line(comparison, letters)])
    yield from short_notes(comparison)
    lost = digest_table(comparison.digest)
    if lost.rows:
        yield ""
        yield lost
