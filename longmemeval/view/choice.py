"""What a page looks at, as its address says it: `?run=A&run=B&baseline=A&judge=J`, the same for every page."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct
from starlette.datastructures import QueryParams

from longmemeval.results.compared import baseline_first, with_first


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
        return Choice(tuple(with_first(self.runs, run)), self.judge)

    def judged_by(self, judge: str) -> "Choice":
        """Return the same runs as another judge graded them."""
        return Choice(self.runs, judge)


NOTHING_NAMED = Choice()


def choice_of(query: QueryParams, results_dir: Path, otherwise: Choice) -> Choice:
    """Return what an address asks for.

    Args:
        query: of the address; a run named twice counts once. A `baseline` that is none of the runs, as the list of runs
            sends it where nobody chose one, leaves it to the rule of `results/compared.py`.
        results_dir: the folder of runs.
        otherwise: what is seen where it names no run, or no judge.
    """
    runs = tuple(dict.fromkeys(query.getlist("run"))) or otherwise.runs
    judge = query.get("judge", "" if query.getlist("run") else otherwise.judge)
    baseline = query.get("baseline")
    if baseline is None:
        return Choice(runs, judge)
    return Choice(tuple(baseline_first(runs, results_dir, baseline if baseline in runs else None)), judge)
