"""The runs page: `/runs?q=TEXT&dataset=D&memory=M&status=S&sweep=S`, and the choice that other pages go on with.

`q` is looked for in ids, memories, models and data sets. The form leads to `/compare?run=…&baseline=…`.
"""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.text.figures import UNKNOWN, bounds, count, in_dollars, in_percent
from longmemeval.pipeline.status.under_way import state_of_unfinished
from longmemeval.report.tables.status import progress
from longmemeval.results.listing import ListedRun, RunFilter, list_runs
from longmemeval.results.planned import planned_runs
from longmemeval.view.answers import page
from longmemeval.view.choice import Choice, choice_of
from longmemeval.view.site import Site, site_of

_FILTERS = ("dataset", "memory", "status", "sweep")


class RunLine(Struct, frozen=True):
    """One run of the list, as it is shown."""

    run: str
    memory: str
    model: str
    dataset: str
    state: str
    unfinished: bool
    questions: str
    score: str
    interval: str
    judge: str
    official: bool
    cost: str
    started: str
    sweep: str
    can_compare: bool


def show(request: Request) -> Response:
    """Answer with the list of runs."""
    site, query = site_of(request), request.query_params
    given = {name: query.get(name, "") for name in _FILTERS}
    listed = [*planned_runs(site.folders.results_dir), *list_runs(site.folders.results_dir)]
    wanted = RunFilter(**{name: value or None for name, value in given.items()})
    found = [one for one in listed if wanted.fits(one) and _has(one, query.get("q", ""))]
    return page(
        request,
        "runs.html.j2",
        choice_of(query, site.folders.results_dir, Choice(judge=site.named.judge)),
        lines=[_line(one, site) for one in found],
        total=len(listed),
        given=given | {"q": query.get("q", "")},
        offered=_offered(listed),
        folder=str(site.folders.results_dir),
    )


def _has(one: ListedRun, text: str) -> bool:
    return text.lower() in f"{one.run} {one.memory} {one.model} {one.dataset} {one.sweep or ''}".lower()


def _offered(listed: list[ListedRun]) -> dict[str, list[str]]:
    """Return what each filter can be set to, where there is more than one."""
    values = {name: sorted({str(getattr(one, name) or "") for one in listed} - {""}) for name in _FILTERS}
    return {name: offered for name, offered in values.items() if len(offered) > 1}


def _line(one: ListedRun, site: Site) -> RunLine:
    state = state_of_unfinished(one, site.folders)
    score = one.scores[0] if one.scores else None
    return RunLine(
        run=one.run,
        memory=one.memory or UNKNOWN,
        model=one.model or UNKNOWN,
        dataset=one.dataset or UNKNOWN,
        state=state.state if state else one.status,
        unfinished=state is not None,
        questions=progress(state) if state else count(one.questions),
        score=in_percent(score.value) if score else UNKNOWN,
        interval=bounds(score.interval) if score else "",
        judge=score.judge if score else "",
        official=bool(score and score.official),
        cost=in_dollars(one.cost_usd),
        started=one.started_at[:16].replace("T", " ") or UNKNOWN,
        sweep=one.sweep or "",
        can_compare=score is not None and one.kind != "retrieval",
    )


routes: list[BaseRoute] = [Route("/runs", show)]
