"""Runs on different data sets on one page: the table by ability, what stands in it, and nothing compared."""

from collections.abc import Sequence

from longmemeval import __version__
from longmemeval.core.text.figures import count_of
from longmemeval.report.charts.svg import need_report_libraries
from longmemeval.report.page.templates import environment, page_style, policy
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.results.graded.graded_run import Evaluation

_STYLE = """
td, thead th { white-space: pre-line; }
"""


def across_page(graded: Sequence[Evaluation]) -> str:
    """Return the page: the same bytes for the same files.

    Raises:
        HarnessError: the extra `report` is not installed.
    """
    need_report_libraries()
    from markupsafe import Markup

    style = page_style() + _STYLE
    sets = len({run.manifest.dataset["content_sha256"] for run in graded})
    text = (
        environment()
        .get_template("across.html.j2")
        .render(
            policy=policy("", style),
            table=ability_table(graded),
            lead=f"{count_of(len(graded), 'run')}, {count_of(sets, 'data set')}",
            legend=ability_legend(graded),
            notes=ability_notes(graded),
            version=__version__,
            style=Markup(style),
        )
    )
    return text + "\n"
