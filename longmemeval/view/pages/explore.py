"""Serve the recall explorer: `/explore?q=ID&text=TYPED&memory=NAME&set.top_k=20&find=TEXT`.

`q` is the question whose history is searched, `text` replaces its own words, `find` searches for another question.
`/explore/result` takes the same parameters and returns only the result, with which the page's script updates the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.configuration import MemoryConfiguration, definition_of
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.view.explorer import (
    PREFIX,
    Exploration,
    Field,
    configuration_from,
    explore,
    fields_of,
    memories_to_try,
)
from longmemeval.view.opened import Choice, page
from longmemeval.view.question.evidence import evidence_of
from longmemeval.view.question.prompt import memory_of
from longmemeval.view.site import Site, site_of

_OFFERED = 10
"""The most questions that a search lists."""
_LONGEST = 2_000
"""The longest typed question, in characters."""


def show(request: Request) -> Response:
    """Answer with the form and the result."""
    return _answer(request, "explore.html.j2")


def show_result(request: Request) -> Response:
    """Answer with the result alone."""
    return _answer(request, "explore_result.html.j2")


def _answer(request: Request, template: str) -> Response:
    site = site_of(request)
    choice = site.graded(request)
    return page(request, template, choice, **_explored(request, site, choice))


def _explored(request: Request, site: Site, choice: Choice) -> dict[str, Any]:
    query, runs = request.query_params, site.opened.evaluations(choice)
    run = next((run for run in runs if run.manifest.settings.preparation), runs[0])
    questions = run.asked.questions
    question_id = query.get("q") or next(iter(questions))
    if question_id not in questions:
        raise HarnessError(f"These runs have no question '{question_id}'", fix=nearest(question_id, questions))
    question, evidence = questions[question_id], evidence_of(run.asked, question_id)
    by_score = sorted(runs, key=lambda graded: -graded.metrics.overall.accuracy)
    memories, like = memories_to_try(), [memory for memory in map(memory_of, by_score) if memory]
    memory = _memory(query.get("memory", ""), memories, like)
    values = {key.removeprefix(PREFIX): value for key, value in query.items() if key.startswith(PREFIX)}
    fields, problem_with = _fields(memory, values, like)
    text, find = query.get("text", "").strip()[:_LONGEST], query.get("find", "").strip()
    text = "" if text == question.text else text
    recaller = site.recallers.of(run)
    if problem_with:
        exploration = Exploration(problem_with)
    elif recaller is None:
        exploration = Exploration("Nothing is prepared for these runs: `longmemeval prepare` makes fixtures")
    else:
        exploration = explore(recaller, question, text, configuration_from(memory, values, like)[0], evidence)
    return {
        "found": exploration,
        "question": question,
        "text": text,
        "memory": memory,
        "memories": memories,
        "fields": fields,
        "given": values,
        "answer": evidence.answer,
        "find": find,
        "matches": _matches(run, find),
        "at": lambda other_id: choice.address("/explore", {"q": other_id, "memory": memory}),
        "back": choice.address("/question", {"q": question_id}),
        "prefix": PREFIX,
    }


def _memory(wanted: str, memories: Sequence[str], like: Sequence[MemoryConfiguration]) -> str:
    """Return the memory to try: the requested one, else the first memory of the runs that can recall here."""
    tried = [used.preset for used in like if used.preset in memories and definition_of(used).control is None]
    return wanted if wanted in memories else (tried or list(memories))[0]


def _fields(memory: str, given: Mapping[str, str], like: Sequence[MemoryConfiguration]) -> tuple[list[Field], str]:
    """Return the fields of the form with the given values, and the error in them; empty if there is none."""
    try:
        return fields_of(*configuration_from(memory, given, like)), ""
    except HarnessError as error:
        return fields_of(*configuration_from(memory, {}, like)), without_places(str(error))


def _matches(run: Evaluation, find: str) -> list[tuple[str, str]]:
    """Return id and text of the questions that contain the text `find`."""
    folded = find.casefold()
    matches = [(question.question_id, question.text) for question in run.asked.questions.values()] if folded else []
    return [match for match in matches if folded in match[0].casefold() or folded in match[1].casefold()][:_OFFERED]


routes: list[BaseRoute] = [Route("/explore", show), Route("/explore/result", show_result)]
