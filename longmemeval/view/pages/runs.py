"""Serve the list to choose runs from: `/runs?q=TEXT&dataset=D&memory=M&status=S&sweep=S&sort=O`.

`q` is searched for in ids, memories, models, datasets and sweeps; `sort` is `newest` (first), `score` (best first) or
`run` (names from a to z). The form leads to `/compare?run=…&baseline=…`.
"""

from collections.abc import Callable
from math import inf
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.text.figures import UNKNOWN, count
from longmemeval.pipeline.compare.naming import answered_by
from longmemeval.pipeline.status import state_of_unfinished
from longmemeval.report.charts.svg import Look, looks_of
from longmemeval.report.tables.status import progress
from longmemeval.results.compared import control_in_words
from longmemeval.results.listing import ListedRun, ListedScore, RunFilter, list_runs, planned_runs
from longmemeval.view.opened import Choice, choice_of, page
from longmemeval.view.site import Site, site_of

_FILTERS = ("dataset", "memory", "status", "sweep")
_SORTS: dict[str, Callable[[ListedRun], tuple[float, str]]] = {
    "newest": lambda run: (0, ""),
    "score": lambda run: (-run.scores[0].value if run.scores else inf, ""),
    "run": lambda run: (0, f"{answered_by(run.model, run.memory)} {run.run}".casefold()),
}
"""The sort keys by the value of `sort`; equal runs stay in the order of the list, the newest first."""


class RunLine(Struct, frozen=True):
    """One run of the list, with the values shown beside its own fields."""

    run: ListedRun
    name: str
    """The run's memory, or its model if that is a control, as in comparisons."""
    look: Look
    control: str
    """`control` or `control, reads gold`; empty for a memory."""
    state: str
    questions: str
    score: ListedScore | None


def show(request: Request) -> Response:
    """Answer with the list of runs."""
    site, query = site_of(request), request.query_params
    filters = {name: query.get(name, "") for name in _FILTERS}
    listed = [*planned_runs(site.folders.results_dir), *list_runs(site.folders.results_dir)]
    run_filter = RunFilter(**{name: value or None for name, value in filters.items()})
    sort = query["sort"] if query.get("sort") in _SORTS else "newest"
    shown = sorted((run for run in listed if run_filter.fits(run) and _has(run, query.get("q", ""))), key=_SORTS[sort])
    parameters = [pair for pair in query.multi_items() if pair[0] != "sort"]
    return page(
        request,
        "runs.html.j2",
        choice_of(query, site.folders.results_dir, Choice(judge=site.named.judge)),
        lines=[_line(run, site) for run in shown],
        total=len(listed),
        sort=sort,
        sorts=list(_SORTS),
        sorted_by=lambda order: f"/runs?{urlencode([*parameters, ('sort', order)])}",
        given=filters | {"q": query.get("q", "")},
        offered=_offered(listed),
        folder=site.folders.results_dir.name,
    )


def _has(run: ListedRun, text: str) -> bool:
    return text.lower() in f"{run.run} {run.memory} {run.model} {run.dataset} {run.sweep or ''}".lower()


def _offered(listed: list[ListedRun]) -> dict[str, list[str]]:
    """Return the values of each filter that has more than one."""
    values = {name: sorted({str(getattr(run, name) or "") for run in listed} - {""}) for name in _FILTERS}
    return {name: offered for name, offered in values.items() if len(offered) > 1}


def _line(run: ListedRun, site: Site) -> RunLine:
    state = state_of_unfinished(run, site.folders)
    control = control_in_words(run.run, site.folders.results_dir)
    kind = ("control" in control, "gold" in control)
    return RunLine(
        run=run,
        name=answered_by(run.model, run.memory) or UNKNOWN,
        look=looks_of([run.run], [kind], [run.memory])[0],
        control=control,
        state=state.state if state else run.status,
        questions=progress(state) if state else count(run.questions),
        score=run.scores[0] if run.scores and run.kind != "retrieval" else None,
    )


routes: list[BaseRoute] = [Route("/runs", show)]
