"""Serve the matrix: `/questions?run=A&…&show=S&of=RUN&type=T&stage=L&only=RUN&sort=O&q=TEXT&in=answers`.

`show` is `differ`, `lost`, `won`, `unchanged`, `wrong`, `disagree`, `found` or `all`; the first three against the
baseline, for the run `of` or for any. `sort` is `data`, `regression`, `disagreement` or `tokens`. `q` is searched for
in questions, with `in=answers` also in answers, with `in=recalled` also in the recalled messages; with `in=pattern` it
is a regular expression for questions and answers. By default, the questions on which the runs differ are shown. The
data are under `/data/questions?…`, the results of a search beyond the questions under `/data/search?q=TEXT&in=…&…`.
"""

import asyncio
from threading import Event

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.summary import patterns_of
from longmemeval.view.opened import data, page
from longmemeval.view.search.patterns import Stopped, in_answers, matching
from longmemeval.view.selected import FILTERS, Selection, matrix_of, selected, selection_of
from longmemeval.view.site import Site, site_of

_FIRST = 100
"""The number of rows shown without scripts."""
_LOOK_S = 0.1
"""Seconds between checks whether the client is still connected."""


def show(request: Request) -> Response:
    """Answer with the patterns and the first rows; scripts show the others."""
    site = site_of(request)
    choice = site.graded(request)
    comparison = site.opened.comparison(choice)
    matrix = site.opened.of(comparison, matrix_of)
    wanted = selection_of(request.query_params, "q")
    if len(matrix.runs) > 1 and not (wanted.show or wanted.text or wanted.only or wanted.stage):
        wanted = replace(wanted, show="differ")
    rows = rows_in(site, comparison, wanted)
    return page(
        request,
        "questions.html.j2",
        choice,
        matrix=matrix,
        patterns=patterns_of(comparison),
        controls=[run for place, run in enumerate(matrix.runs) if place not in matrix.among],
        wanted=wanted,
        rows=rows[:_FIRST],
        number=len(rows),
        filters=FILTERS,
        at=lambda **more: choice.address("/questions", {**wanted.address("q"), **more}),
        question=lambda question_id: choice.address("/question", {"q": question_id, **wanted.address()}),
        source=choice.address("/data/questions"),
    )


def rows_in(site: Site, comparison: Comparison, wanted: Selection) -> list[int]:
    """Return the rows of a comparison's matrix that an address selects, in its order.

    Raises:
        HarnessError: the pattern is invalid, or takes too much time or memory.
    """
    hits = _found(site, comparison, wanted.text, wanted.within) if wanted.text and wanted.within else ""
    return selected(site.opened.of(comparison, matrix_of), wanted, hits)


def questions(request: Request) -> Response:
    """Answer with all questions, packed."""
    site = site_of(request)
    return data(site.opened.of(site.opened.comparison(site.choice(request)), matrix_of))


async def search(request: Request) -> Response:
    """Answer with `1` for each question that is found, else `0`; stop once the client has disconnected."""
    gone = Event()
    work = asyncio.ensure_future(run_in_threadpool(_search, request, gone.is_set))
    while not (await asyncio.wait({work}, timeout=_LOOK_S))[0]:
        if await request.is_disconnected():
            gone.set()
    return await work


def _search(request: Request, stopped: Stopped) -> Response:
    site, text, place = site_of(request), request.query_params.get("q", ""), request.query_params.get("in", "answers")
    comparison = site.opened.comparison(site.choice(request))
    return data({"q": text, "in": place, "found": _found(site, comparison, text, place, stopped)})


def _found(site: Site, comparison: Comparison, text: str, place: str, stopped: Stopped = lambda: False) -> str:
    """Return `1` for each question for which `text` is found in what `place` names, else `0`."""
    if place == "pattern":
        hits = _by_pattern(comparison, text, stopped)
    else:
        hits = in_answers(comparison, text)
        if place == "recalled":
            hits |= site.recalled.found(comparison, text, stopped)
    return "".join("01"[row.question_id in hits] for row in comparison.questions)


def _by_pattern(comparison: Comparison, pattern: str, stopped: Stopped) -> set[str]:
    by_id = comparison.evaluations[0].asked.questions
    texts = [(question_id, question.text) for question_id, question in by_id.items()]
    texts += [(name, answer.hypothesis) for run in comparison.evaluations for name, answer in run.answers.items()]
    return {texts[place][0] for place in matching(pattern, [text for _, text in texts], stopped)}


routes: list[BaseRoute] = [
    Route("/questions", show),
    Route("/data/questions", questions),
    Route("/data/search", search),
]
