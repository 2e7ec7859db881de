"""The matrix: `/questions?run=A&…&show=S&of=RUN&type=T&stage=L&only=RUN&sort=O&q=TEXT&in=answers`.

`show` is `differ`, `lost`, `won`, `unchanged`, `wrong`, `disagree`, `found` or `all`; the first three against the
baseline, of the run `of` or of any. `sort` is `data`, `regression`, `disagreement` or `tokens`. `q` is looked for in
questions, with `in=answers` in answers too. Where nothing is said, those that differ are shown. The data are under
`/data/questions?…`, what a search finds in answers under `/data/search?q=TEXT&…`.
"""

from functools import partial

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.pipeline.compare.comparable import check_comparable
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.view.answers import data, page, problem
from longmemeval.view.choice import Choice
from longmemeval.view.packed import Matrix, matrix_of, patterns
from longmemeval.view.selected import FILTERS, Selection, selected, selection_of
from longmemeval.view.site import Site, site_of

_FIRST = 100
"""Rows that are there without scripts."""


def show(request: Request) -> Response:
    """Answer with the patterns and the first rows; scripts show the others."""
    site = site_of(request)
    choice = site.choice(request)
    if not choice.runs:
        return problem(request, 404, "No run is graded yet", "`longmemeval evaluate RUN` grades one")
    matrix = matrix_in(site, choice)
    wanted = selection_of(request.query_params, "q")
    if len(matrix.runs) > 1 and not (wanted.show or wanted.text or wanted.only or wanted.stage):
        wanted = replace(wanted, show="differ")
    rows = rows_in(site, choice, wanted)
    return page(
        request,
        "questions.html.j2",
        choice,
        matrix=matrix,
        patterns=patterns(matrix),
        wanted=wanted,
        rows=rows[:_FIRST],
        number=len(rows),
        filters=FILTERS,
        at=lambda **more: choice.address("/questions", {**wanted.address("q"), **more}),
        question=lambda one: choice.address("/question", {"q": one, **wanted.address()}),
        source=choice.address("/data/questions"),
    )


def matrix_in(site: Site, choice: Choice) -> Matrix:
    """Return all questions of these runs.

    Raises:
        HarnessError: they cannot be opened, or are not over the same questions.
    """
    graded = site.opened.evaluations(choice)
    check_comparable(graded)
    return site.opened.of(graded, choice, partial(matrix_of, where=site.where), "matrix")


def rows_in(site: Site, choice: Choice, wanted: Selection) -> list[int]:
    """Return the rows of the matrix that an address chooses, in its order."""
    in_answers = wanted.text and wanted.within == "answers"
    found = _found(site.opened.evaluations(choice), wanted.text) if in_answers else ""
    return selected(matrix_in(site, choice), wanted, found)


def questions(request: Request) -> Response:
    """Answer with all questions, packed."""
    site = site_of(request)
    return data(matrix_in(site, site.choice(request)))


def search(request: Request) -> Response:
    """Answer with a string of `1` for each question in whose answers the text is, whatever its case, else `0`."""
    site = site_of(request)
    graded = site.opened.evaluations(site.choice(request))
    return data({"q": request.query_params.get("q", ""), "found": _found(graded, request.query_params.get("q", ""))})


def _found(graded: list[Evaluation], text: str) -> str:
    wanted = text.casefold()
    hits = {
        question_id
        for run in graded
        for question_id, answer in run.answers.items()
        if wanted in answer.hypothesis.casefold()
    }
    return "".join("1" if one in hits else "0" for one in graded[0].asked.questions)


routes: list[BaseRoute] = [
    Route("/questions", show),
    Route("/data/questions", questions),
    Route("/data/search", search),
]
