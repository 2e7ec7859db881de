"""What a page looks at, as its address says it: `?run=A&run=B&baseline=A&judge=J`, the same for every page."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from starlette.datastructures import QueryParams

from longmemeval.errors import HarnessError
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.memory.definition import MEMORIES
from longmemeval.results.listing import ListedRun

MOST_RUNS = 20
"""Runs that a page opens where the address names none."""


class Choice(Struct, frozen=True):
    """Runs, baseline and judge."""

    runs: tuple[str, ...] = ()
    """Ids in the order of display, the baseline first."""
    judge: str = ""
    """Id of the judge, a beginning of it or its model; empty: the official one where it graded, else the newest."""

    @property
    def baseline(self) -> str:
        """The run that the others are compared with; empty without runs."""
        return self.runs[0] if self.runs else ""

    def address(self, path: str, given: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> str:
        """Return the address of a page on these runs.

        Args:
            path: of the page, such as `/compare`.
            given: what else the page's grammar knows; empty values are left out.
        """
        more = given.items() if isinstance(given, Mapping) else given
        pairs = [*(("run", one) for one in self.runs), ("judge", self.judge), *more]
        query = urlencode([pair for pair in pairs if pair[1]])
        return f"{path}?{query}" if query else path

    def with_baseline(self, run: str) -> "Choice":
        """Return the same runs against another baseline."""
        return Choice((run, *(one for one in self.runs if one != run)), self.judge)

    def judged_by(self, judge: str) -> "Choice":
        """Return the same runs as another judge graded them."""
        return Choice(self.runs, judge)


def choice_of(query: QueryParams, otherwise: Sequence[str] = ()) -> Choice:
    """Return what an address asks for.

    Args:
        query: of the address; a run named twice counts once.
        otherwise: the runs where it names none.
    """
    runs = tuple(dict.fromkeys(query.getlist("run") or otherwise))
    chosen = Choice(runs, query.get("judge", ""))
    baseline = query.get("baseline", "")
    return chosen.with_baseline(baseline) if baseline in runs else chosen


def comparable_with_newest(listed: Sequence[ListedRun]) -> list[str]:
    """Return the ids of the newest graded run and of those like it in data, number of questions and judge.

    Args:
        listed: all runs, newest first.

    Returns:
        The oldest first, as a baseline is run before what is tried against it; controls last.
    """
    graded = [one for one in listed if one.scores and one.kind != "retrieval"]
    if not graded:
        return []
    first = graded[0]

    def key(one: ListedRun) -> tuple[str, int, str]:
        return one.dataset, one.questions, one.scores[0].judge

    alike = [one for one in graded if key(one) == key(first)][:MOST_RUNS][::-1]
    return [one.run for one in sorted(alike, key=_is_control)]


def _is_control(one: ListedRun) -> bool:
    try:
        return one.model in CONTROL_MODELS or MEMORIES.get(one.memory).control is not None
    except HarnessError:  # A name of somebody's own, or of a package that is not installed.
        return False
