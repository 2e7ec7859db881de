"""Serve one question over the runs: `/question?q=ID&shown=RUN&prompt=all&by=NAME&show=…`, with runs, baseline, judge.

`shown` is the run whose prompt is open, `prompt=all` shows all of a long prompt, `by` is the person who labels. `show`,
`of`, `type`, `stage`, `only`, `sort`, `find` and `in` are the filter and order of `pages/questions.py` (its `q` is
`find` here), which choose the previous and next questions. Without `q`, the page shows the first question on which the
runs differ.
"""

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.charts.svg import shown_runs
from longmemeval.view.labels import labels_of_people
from longmemeval.view.opened import Choice, page
from longmemeval.view.pages.questions import rows_in
from longmemeval.view.question.gather import QuestionPage, dates_below, history_strip, question_page, track_strip
from longmemeval.view.question.prompt import prompt_view
from longmemeval.view.selected import Selection, matrix_of, selection_of
from longmemeval.view.site import site_of


def show(request: Request) -> Response:
    """Answer with one question."""
    site, query = site_of(request), request.query_params
    choice = site.graded(request)
    comparison = site.opened.comparison(choice)
    question_id = query.get("q", "")
    if not question_id:
        first = next((row.question_id for row in comparison.questions if len(set(row.credits)) > 1), "")
        question_id = first or comparison.questions[0].question_id
        return RedirectResponse(choice.address("/question", {"q": question_id}), status_code=303)
    wanted, walked, words = selection_of(query), list[str](), ""
    if wanted != Selection():
        matrix = site.opened.of(comparison, matrix_of)
        walked = [matrix.ids[row] for row in rows_in(site, comparison, wanted)]
        words = wanted.words(matrix) if question_id in walked else ""
    found, runs = question_page(comparison, question_id, walked), shown_runs(comparison)
    shown = _shown(query.get("shown", ""), wanted.of, comparison, found)
    run = comparison.evaluations[shown]
    seen = {"shown": query.get("shown", ""), "by": query.get("by", ""), **wanted.address()}

    def at(question: str = question_id, of: Choice = choice, **more: str) -> str:
        return of.address("/question", {"q": question, **seen, **more})

    def strip(place: int) -> str:
        return track_strip(found.tracks[place], found.sessions, runs[place].name, runs[place].look.colour)

    return page(
        request,
        "question.html.j2",
        choice,
        found=found,
        runs=runs,
        ids=[run.id for run in comparison.evaluations],
        strips=[Markup(strip(place)) for place in range(len(runs))],
        history=Markup(history_strip(found.sessions)),
        dates=dates_below(found.sessions),
        prompt=prompt_view(run, question_id, site.recallers.of(run), whole=query.get("prompt") == "all"),
        shown=shown,
        order=list(dict.fromkeys([0, shown, *range(len(runs))])),
        at=at,
        words=words,
        all_questions=choice.address("/questions", wanted.address("q")),
        label=choice.address("/label", wanted.address()),
        flipped=at(of=choice.with_baseline(choice.runs[1])) if len(choice.runs) > 1 else "",
        explore=_explorer(choice, comparison, shown, question_id),
        people=labels_of_people(comparison, question_id),
        by=seen["by"],
        kept=query.get("kept", ""),
    )


def _shown(wanted: str, of: str, comparison: Comparison, found: QuestionPage) -> int:
    """Return the place of the run whose prompt is open: the one the filter is about, else the best that lost it.

    Raises:
        HarnessError: the named run is not on this page.
    """
    ids = [run.id for run in comparison.evaluations]
    if wanted and wanted not in ids:
        raise HarnessError(f"Run '{wanted}' is none of those on this page", fix="Choose it on the runs page")
    if wanted or of in ids:
        return ids.index(wanted or of)
    memories = [
        ids.index(run_id) for row in comparison.ranked if row.summary.control is None for run_id in row.run_ids
    ] or [0]
    return next((place for place in memories if found.whys[place]), memories[0])


def _explorer(choice: Choice, comparison: Comparison, shown: int, question_id: str) -> str:
    """Return the address of the explorer with this question and the memory of the run whose prompt is open."""
    memory = comparison.evaluations[shown].manifest.settings.memory
    return choice.address("/explore", {"q": question_id, "memory": memory.preset if memory else ""})


routes: list[BaseRoute] = [Route("/question", show)]
