"""Serve labelling by people: `/labels?by=NAME`, and blind, answer by answer, at `/labels/blind?set=CODE&by=NAME&at=N`.

A label is a `POST` to `/label` (from the page of a question) or to `/labels/blind`; both redirect to a page.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from longmemeval.errors import HarnessError
from longmemeval.pipeline.evaluate.labelling import PersonLabel, label_answer
from longmemeval.report.charts.svg import shown_runs
from longmemeval.view.labels import agreements, choice_in, code_of, next_item, order_of
from longmemeval.view.opened import Choice, page
from longmemeval.view.selected import selection_of
from longmemeval.view.site import Site, site_of

_LONGEST_FORM = 100_000
"""The largest form, in bytes."""


def show(request: Request) -> Response:
    """Answer with the agreement of people and judges, and the links to label answers."""
    site = site_of(request)
    choice = site.graded(request)
    comparison = site.opened.comparison(choice)
    return page(
        request,
        "labels.html.j2",
        choice,
        runs=shown_runs(comparison),
        agreements=agreements(comparison),
        code=code_of(choice),
        by=request.query_params.get("by", ""),
        question=lambda question_id: choice.address("/question", {"q": question_id}),
    )


def show_blind(request: Request) -> Response:
    """Answer with the next answer to label; neither runs nor judges are named on the page."""
    site, query = site_of(request), request.query_params
    code, by, begin = query.get("set", ""), query.get("by", ""), query.get("at", "0")
    runs = site.opened.evaluations(choice_in(code))
    item = next_item(runs, code, by, int(begin) if begin.isdecimal() else 0)
    return page(request, "blind.html.j2", item=item, code=code, by=by)


async def keep(request: Request) -> Response:
    """Store a label of an answer whose run is known, and go back to the question."""
    return await run_in_threadpool(_keep, request, await _sent(request))


def _keep(request: Request, sent: Mapping[str, str]) -> Response:
    site, choice = site_of(request), site_of(request).choice(request)
    label = _label(sent, sent.get("of", ""), sent.get("q", ""))
    _store(site, choice, label, sent.get("by", ""), blind=False)
    back = {"q": label.question_id, "shown": sent.get("shown", ""), "by": sent.get("by", ""), "kept": label.run_id}
    return RedirectResponse(
        choice.address("/question", back | selection_of(request.query_params).address()), status_code=303
    )


async def keep_blind(request: Request) -> Response:
    """Store a label of an answer whose run the page does not reveal, and go on to the next."""
    return await run_in_threadpool(_keep_blind, request, await _sent(request))


def _keep_blind(request: Request, sent: Mapping[str, str]) -> Response:
    site, code, by, place = site_of(request), sent.get("set", ""), sent.get("by", ""), sent.get("place", "")
    choice = choice_in(code)
    order = order_of(site.opened.evaluations(choice), code)
    if not place.isdecimal() or int(place) >= len(order):
        raise HarnessError("This labelling has no such answer", fix="Begin again on the page of labels")
    if sent.get("right") != "skip":
        run, question_id = order[int(place)]
        _store(site, choice, _label(sent, run.id, question_id), by, blind=True)
    onward = Choice().address("/labels/blind", {"set": code, "by": by, "at": str(int(place) + 1)})
    return RedirectResponse(onward, status_code=303)


async def _sent(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        HarnessError: the form is too large, or is not a form.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_FORM:
            raise HarnessError("The form is too large", fix="Shorten the reason")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    except UnicodeDecodeError as error:
        raise HarnessError("This is not a form", fix="Use the buttons of the page") from error


def _label(sent: Mapping[str, str], run_id: str, question_id: str) -> PersonLabel:
    if sent.get("right") not in ("yes", "no"):
        raise HarnessError("A label says right or wrong, and this says neither", fix="Choose one of the buttons")
    return PersonLabel(run_id, question_id, sent["right"] == "yes", sent.get("why", ""))


def _store(site: Site, choice: Choice, label: PersonLabel, by: str, *, blind: bool) -> None:
    run = next((run for run in site.opened.evaluations(choice) if run.id == label.run_id), None)
    if run is None:
        raise HarnessError(f"Run '{label.run_id}' is none of those on this page", fix="Choose it on the runs page")
    label_answer(label, run.asked, site.folders, name=by, blind=blind)


routes: list[BaseRoute] = [
    Route("/labels", show),
    Route("/label", keep, methods=["POST"]),
    Route("/labels/blind", show_blind),
    Route("/labels/blind", keep_blind, methods=["POST"]),
]
