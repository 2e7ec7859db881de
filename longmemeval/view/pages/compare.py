"""Serve the comparison: `/compare?run=A&run=B&baseline=A&judge=J`, its pictures under `/compare/pictures?…`."""

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.tables.table import Link, Table
from longmemeval.core.text.paths import document_without_places, without_places
from longmemeval.errors import HarnessError
from longmemeval.llm.options import is_offline
from longmemeval.measures.losses import cause_of
from longmemeval.pipeline.compare.comparable import in_words, setting_differences, settings_side_by_side
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.charts import of_comparison as charts
from longmemeval.report.charts.charts import Chart
from longmemeval.report.charts.grids import grid_charts
from longmemeval.report.charts.svg import need_report_libraries, shown_rows, shown_runs
from longmemeval.report.page.summary import pair_rows, scores_of
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.comparison import (
    caution_lines,
    comparison_notes,
    comparison_tables,
    digest_table,
    marks_line,
)
from longmemeval.view.opened import Choice, page
from longmemeval.view.question.gather import WHY_LOST
from longmemeval.view.site import Site, site_of


def show(request: Request) -> Response:
    """Answer with the verdict, the table, and the notes on the figures."""
    site = site_of(request)
    choice = site.graded(request)
    judges = _judges(site, choice)
    try:
        comparison = site.opened.comparison(choice)
    except HarnessError as error:
        return _side_by_side(request, choice, error, judges)
    first, *tables = comparison_tables(comparison, pairs=False)
    told = {*comparison.cautions, marks_line(comparison)}  # Others are in the page already.
    return page(
        request,
        "compare.html.j2",
        choice,
        comparison=comparison,
        verdict=comparison.verdict,
        judged=first.title,
        offline=all(is_offline(run.summary.model) for run in comparison.runs),
        metric=comparison.metric,
        scores=scores_of(comparison, more=True),
        changes=lambda kind, row: (
            "" if row.place < 0 else choice.address("/questions", {"show": _FILTERS[kind], "of": row.run_id})
        ),
        judges=judges,
        warnings=[without_places(line) for line in caution_lines(comparison) if line not in told],
        settings=document_without_places(settings_side_by_side(comparison.evaluations)),
        in_words=in_words,
        columns=shown_runs(comparison),
        pairs=pair_rows(comparison),
        digest=_digest(comparison, choice),
        tables=tables,
        notes=[without_places(line) for line in comparison_notes(comparison) if line not in caution_lines(comparison)],
    )


_FILTERS = {"won": "won", "lost": "lost", "same": "unchanged"}
"""Filters of the page of questions for the ways in which a run can change a question."""


def _side_by_side(request: Request, choice: Choice, error: HarnessError, judges: list[str]) -> Response:
    """Answer with the reason why runs are not compared and, if they can be read, their scores side by side."""
    what, where, fix = map(without_places, (error.what, error.where, error.fix))
    error = HarnessError(what, where=where, fix=fix)
    try:
        graded = site_of(request).opened.evaluations(choice)
    except HarnessError:  # The same error: a run is damaged, or not graded by this judge.
        return page(request, "refused.html.j2", choice, 409, error=error, judges=judges, table=None)
    if len({run.metrics.judge.id for run in graded}) == 1:  # Another judge would not help.
        judges = []
    return page(
        request,
        "refused.html.j2",
        choice,
        error=error,
        judges=judges,
        table=ability_table(graded),
        differing=[setting.text for setting in setting_differences(graded).values()],
        legend=ability_legend(graded),
        notes=ability_notes(graded),
    )


def _judges(site: Site, choice: Choice) -> list[str]:
    """Return the ids of the judges that have graded all of the runs."""
    names = [{path.stem for path in (site.folders.results_dir / run / "metrics").glob("*.json")} for run in choice.runs]
    return sorted(set[str].intersection(*names)) if names else []


def _digest(comparison: Comparison, choice: Choice) -> Table:
    """Return the causes of wrong answers in words, with examples that link to the question."""
    table, lost_by = digest_table(comparison), comparison.digest.run
    example = table.headings.index("example")
    texts = comparison.evaluations[0].asked.questions

    causes = {cause_of(stage): words for stage, words in WHY_LOST.items()}

    def add_link(row: list[str]) -> list[str]:
        cause, *row = row
        row = [causes.get(cause, cause), *row]
        address = choice.address("/question", {"q": row[example], "shown": lost_by})
        return [*row[:example], Link(texts[row[example]].text, address), *row[example + 1 :]]

    return replace(table, rows=[add_link(row) for row in table.rows])


def pictures(request: Request) -> Response:
    """Answer with the pictures of a comparison as a separate page; a script inserts its content into the comparison."""
    site = site_of(request)
    choice = site.choice(request)
    try:
        need_report_libraries("A picture")
    except HarnessError as error:
        return page(request, "pictures.html.j2", choice, charts=[], missing=f"{error.what}. {error.fix}.")
    comparison = site.opened.comparison(choice)
    return page(request, "pictures.html.j2", choice, charts=site.opened.of(comparison, _charts), missing="")


def _charts(comparison: Comparison) -> list[Chart]:
    shown = shown_rows(comparison)
    types = charts.group_chart("types", "By question type", comparison, shown, lambda metrics: metrics.by_type)
    abilities = charts.group_chart("abilities", "By ability", comparison, shown, lambda metrics: metrics.by_ability)
    grids = grid_charts(comparison, shown)
    return [*grids, *charts.tradeoff_charts(comparison, shown), *filter(None, [types, abilities])]


routes: list[BaseRoute] = [Route("/compare", show), Route("/compare/pictures", pictures)]
