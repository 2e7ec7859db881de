"""The comparison: `/compare?run=A&run=B&baseline=A&judge=J`."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.report.tables.comparison import comparison_tables
from longmemeval.view.answers import page, problem
from longmemeval.view.site import site_of


def show(request: Request) -> Response:
    """Answer with the verdict and the tables under it."""
    site = site_of(request)
    choice = site.choice(request)
    if not choice.runs:
        return problem(request, 404, "No run is graded yet", "`longmemeval evaluate RUN` grades one")
    comparison = site.opened.comparison(choice)
    first, *others = comparison_tables(comparison, details=False)
    return page(request, "compare.html.j2", choice, comparison=comparison, first=first, others=others)


routes: list[BaseRoute] = [Route("/compare", show)]
