"""Open runs: read and check them once, and again when one of their files has changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from longmemeval.core.caches import SingleFlightCache
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError
from longmemeval.judges.people import PREFIX
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.templates import environment
from longmemeval.results.compared import baseline_first, in_order_named, with_first
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.graded.judge_checks import controls_last
from longmemeval.results.scores.stored import ScoreCache
from longmemeval.settings import Folders

if TYPE_CHECKING:
    from jinja2 import Environment


# Read the choice of a page from its address: `?run=A&run=B&baseline=A&judge=J`, the same for every page.


class Choice(Struct, frozen=True):
    """The runs, baseline and judge of a page."""

    runs: tuple[str, ...] = ()
    """Ids of the runs in the order of display, the baseline first."""
    judge: str = ""
    """Id of the judge, a prefix of it or its model; empty: the official judge if it graded, else the newest."""

    @property
    def baseline(self) -> str:
        """The run that the others are compared with; empty without runs."""
        return self.runs[0] if self.runs else ""

    def address(self, path: str, given: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> str:
        """Return the address of a page on these runs.

        Args:
            path: path of the page, such as `/compare`.
            given: other parameters of the page; empty values are left out.
        """
        more = given.items() if isinstance(given, Mapping) else given
        pairs = [*(("run", run) for run in self.runs), ("judge", self.judge), *more]
        query = urlencode([pair for pair in pairs if pair[1]])
        return f"{path}?{query}" if query else path

    def with_baseline(self, run: str) -> "Choice":
        """Return the same runs against another baseline."""
        return Choice(tuple(with_first(self.runs, run)), self.judge)

    def judged_by(self, judge: str) -> "Choice":
        """Return the same runs as another judge graded them."""
        return Choice(self.runs, judge)


NOTHING_NAMED = Choice()


def choice_of(query: QueryParams, results_dir: Path, otherwise: Choice) -> Choice:
    """Return the choice that an address makes.

    Args:
        query: query of the address; a run named twice counts once. If `baseline` is not one of the runs, as when the
            list of runs is sent without a choice of baseline, the rule of `results/compared.py` decides.
        results_dir: the folder of runs.
        otherwise: source of the runs, and of the judge with them, if the address names none.
    """
    runs = tuple(dict.fromkeys(query.getlist("run"))) or otherwise.runs
    judge = query.get("judge", "" if query.getlist("run") else otherwise.judge)
    baseline = query.get("baseline")
    if baseline is None:
        return Choice(tuple(in_order_named(runs, results_dir)), judge)
    return Choice(tuple(baseline_first(runs, results_dir, baseline if baseline in runs else None)), judge)


Stat = tuple[tuple[str, int, int], ...]
"""Name, modification time and size of each file that a run's figures depend on."""
V = TypeVar("V")
M = TypeVar("M")
StatCache = SingleFlightCache[object, tuple[object, V]]
"""Values by key, each with the state of the files it was made from."""
_RUNS, _COMPARISONS = 48, 12
"""The numbers of runs and comparisons kept open; the least recently used are dropped first."""


def stat_of(folder: Path) -> Stat:
    """Return the state of a run's files, which changes with the run or its judgements; empty if there is no folder."""
    stats = []
    for path in (*folder.glob("*.json*"), *folder.glob("judgements/*"), *folder.glob("metrics/*")):
        if path.name.startswith(PREFIX):  # Labels of people change no score; pages read them anew.
            continue
        try:
            stat = path.stat()
        except OSError:  # Removed since it was listed.
            continue
        stats.append((str(path.relative_to(folder)), stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(stats))


class RunCache:
    """The graded runs and comparisons behind the pages; safe for several requests at once."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._lock = RLock()
        self._runs: StatCache[Evaluation] = SingleFlightCache(_RUNS)
        self._comparisons: StatCache[Comparison] = SingleFlightCache(_COMPARISONS)
        self._made: StatCache[object] = SingleFlightCache(2 * _COMPARISONS)
        self._remembered = ScoreCache.among(folders)

    def stats(self, choice: Choice) -> tuple[Stat, ...]:
        """Return the state of all files that the figures of these runs depend on, including checks of judges."""
        results = self.folders.results_dir
        checks = [(str(path), path.stat().st_mtime_ns, 0) for path in sorted(results.glob("judge-checks/*"))]
        return (tuple(checks), *(stat_of(results / run) for run in choice.runs))

    def evaluations(self, choice: Choice) -> list[Evaluation]:
        """Return the runs as graded by one judge: the baseline first, controls last.

        Raises:
            HarnessError: as `load_graded`.
        """
        with self._lock:
            return self._evaluations(choice, self.stats(choice))

    def _evaluations(self, choice: Choice, stats: tuple[Stat, ...]) -> list[Evaluation]:
        checks, *run_stats = stats
        keys = [(run, choice.judge) for run in choice.runs]
        cached = [_kept(self._runs, key, (checks, stat)) for key, stat in zip(keys, run_stats, strict=True)]
        missing = [run_id for run_id, run in zip(choice.runs, cached, strict=True) if run is None]
        judge, remembered = choice.judge or None, self._remembered
        loaded = {
            evaluation.id: evaluation
            for evaluation in load_graded(missing, self.folders, judge=judge, remembered=remembered)
        }
        runs = []
        for run_id, key, stat, run in zip(choice.runs, keys, run_stats, cached, strict=True):
            runs.append(run or _keep(self._runs, key, (checks, stat), loaded[run_id]))
        return _in_order(runs)

    def comparison(self, choice: Choice) -> Comparison:
        """Return the comparison of these runs, as made by `longmemeval compare --common`.

        Raises:
            HarnessError: as `load_graded` and `compare_runs`.
        """
        with self._lock:
            stats = self.stats(choice)
            if (cached := _kept(self._comparisons, choice, stats)) is not None:
                return cached
            runs = self._evaluations(choice, stats)
            # On the same data, compare the questions that all runs answered; the comparison notes what is left out.
            common = len({run.manifest.dataset["content_sha256"] for run in runs}) == 1
            comparison = compare_runs(runs, self.folders, common=common, audits=None, remembered=self._remembered)
            return _keep(self._comparisons, choice, stats, comparison)

    def of(self, comparison: Comparison, make: Callable[[Comparison], M]) -> M:
        """Return the result of a function on a comparison, computed once while the comparison is cached.

        Args:
            comparison: a comparison returned by `comparison`.
            make: a slow, deterministic function; it must be defined in a module, as it is part of the cache key.
        """
        # The entry also keeps the comparison alive, so no other can have its id; it is a result of this very function.
        return cast("M", self._made.get((id(comparison), make), lambda: (comparison, make(comparison)))[1])


def _kept(cache: StatCache[V], key: object, stat: object) -> V | None:
    """Return a value if the files it was made from still have the state `stat`, else None."""
    entry = cache.peek(key)
    return entry[1] if entry and entry[0] == stat else None


def _keep(cache: StatCache[V], key: object, stat: object, value: V) -> V:
    """Keep a value made from files of the state `stat`, in place of an earlier one."""
    cache.drop(key)
    return cache.get(key, lambda: (stat, value))[1]


def _in_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    return controls_last(runs, lambda run: run.summary.control)


# The pages that every page links to, in the order of the links.

NAVIGATION: tuple[tuple[str, str], ...] = (
    ("Runs", "/runs"),
    ("Compare", "/compare"),
    ("Questions", "/questions"),
    ("Recall explorer", "/explore"),
    ("Labels", "/labels"),
    ("Live", "/live"),
)
"""Title and path of each page."""


def is_below(path: str, page: str) -> bool:
    """Return True if `path` is the page of a link or belongs to it, as a single question belongs to all questions."""
    return path == page or path.startswith(f"{page}/") or (path, page) == ("/question", "/questions")


# Answer requests: pages from templates, data as JSON, and errors in words.

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
