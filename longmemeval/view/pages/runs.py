"""The runs page: `/runs?q=TEXT&dataset=D&memory=M&status=S&sweep=S&sort=O`, and the choice that other pages go on with.

`q` is looked for in ids, memories, models and data sets; `sort` is `newest` first, `score` best first, or `run`, their
names from a to z. The form leads to `/compare?run=…&baseline=…`.
"""

from collections.abc import Callable
from math import inf
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.text.figures import UNKNOWN, count
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.pipeline.status.under_way import state_of_unfinished
from longmemeval.report.tables.status import progress
from longmemeval.results.compared import control_in_words
from longmemeval.results.listing import ListedRun, ListedScore, RunFilter, list_runs
from longmemeval.results.planned import planned_runs
from longmemeval.view.answers import page
from longmemeval.view.choice import Choice, choice_of
from longmemeval.view.site import Site, site_of

_FILTERS = ("dataset", "memory", "status", "sweep")
_SORTS: dict[str, Callable[[ListedRun], tuple[float, str]]] = {
    "newest": lambda one: (0, ""),
    "score": lambda one: (-one.scores[0].value if one.scores else inf, ""),
    "run": lambda one: (0, f"{_name(one)} {one.run}".casefold()),
}
"""By the last part of the address; what is alike stays in the order of the list, the newest first."""


class RunLine(Struct, frozen=True):
    """One run of the list, with what is shown beside its own fields."""

    run: ListedRun
    name: str
    """Its memory, or the model of a control that has one, as in comparisons."""
    control: str
    """`control` or `control, reads gold`; empty for a memory."""
    state: str
    questions: str
    score: ListedScore | None


def show(request: Request) -> Response:
    """Answer with the list of runs."""
    site, query = site_of(request), request.query_params
    given = {name: query.get(name, "") for name in _FILTERS}
    listed = [*planned_runs(site.folders.results_dir), *list_runs(site.folders.results_dir)]
    wanted = RunFilter(**{name: value or None for name, value in given.items()})
    sort = query["sort"] if query.get("sort") in _SORTS else "newest"
    found = sorted((one for one in listed if wanted.fits(one) and _has(one, query.get("q", ""))), key=_SORTS[sort])
    asked = [pair for pair in query.multi_items() if pair[0] != "sort"]
    return page(
        request,
        "runs.html.j2",
        choice_of(query, site.folders.results_dir, Choice(judge=site.named.judge)),
        lines=[_line(one, site) for one in found],
        total=len(listed),
        sort=sort,
        sorts=list(_SORTS),
        sorted_by=lambda order: f"/runs?{urlencode([*asked, ('sort', order)])}",
        given=given | {"q": query.get("q", "")},
        offered=_offered(listed),
        folder=str(site.folders.results_dir),
    )


def _name(one: ListedRun) -> str:
    return one.model if one.model in CONTROL_MODELS else one.memory


def _has(one: ListedRun, text: str) -> bool:
    return text.lower() in f"{one.run} {one.memory} {one.model} {one.dataset} {one.sweep or ''}".lower()


def _offered(listed: list[ListedRun]) -> dict[str, list[str]]:
    """Return what each filter can be set to, where there is more than one."""
    values = {name: sorted({str(getattr(one, name) or "") for one in listed} - {""}) for name in _FILTERS}
    return {name: offered for name, offered in values.items() if len(offered) > 1}


def _line(one: ListedRun, site: Site) -> RunLine:
    state = state_of_unfinished(one, site.folders)
    return RunLine(
        run=one,
        name=_name(one) or UNKNOWN,
        control=control_in_words(one.run, site.folders.results_dir),
        state=state.state if state else one.status,
        questions=progress(state) if state else count(one.questions),
        score=one.scores[0] if one.scores and one.kind != "retrieval" else None,
    )


routes: list[BaseRoute] = [Route("/runs", show)]
