"""Answer requests: pages from templates, data as JSON, and errors in words."""

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError
from longmemeval.report.page.templates import environment
from longmemeval.view.choice import Choice
from longmemeval.view.navigation import NAVIGATION, is_below

if TYPE_CHECKING:
    from jinja2 import Environment

DATA = "/data/"
"""The path below which all answers are JSON, including errors."""


def page(request: Request, template: str, choice: Choice | None = None, status: int = 200, **values: Any) -> Response:
    """Return a page.

    Args:
        request: the request to answer.
        template: name of the template, which extends `base.html.j2`.
        choice: the runs to carry over into the links of the page.
        status: the HTTP status.
        values: variables of the template.
    """
    frame = _frame(request, choice or Choice())
    text = _templates().get_template(template).render(**frame, **values)
    return HTMLResponse(text, status)


def data(document: object, status: int = 200) -> Response:
    """Return a document as JSON."""
    return Response(msgspec.json.encode(document), status, media_type="application/json")


def problem(request: Request, status: int, what: str, fix: str = "", where: str = "") -> Response:
    """Return an error in the form the request expects: a page, or JSON with `what`, `where` and `fix`."""
    what, fix, where = map(without_places, (what, fix, where))
    if request.url.path.startswith(DATA):
        return data({"error": {"what": what, "where": where, "fix": fix}}, status)
    return page(request, "problem.html.j2", status=status, what=what, where=where, fix=fix)


def refusal(request: Request, error: HarnessError, status: int = 409) -> Response:
    """Return a user's error in its own words."""
    return problem(request, status, error.what, error.fix, error.where)


def _frame(request: Request, choice: Choice) -> dict[str, Any]:
    """Return the variables of `base.html.j2`."""
    path = request.url.path
    links = [(title, choice.address(at), is_below(path, at)) for title, at in NAVIGATION]
    return {"links": links, "choice": choice}


@cache
def _templates() -> "Environment":
    return environment("longmemeval.view", "templates")
