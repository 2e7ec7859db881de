"""Read the choice of a page from its address: `?run=A&run=B&baseline=A&judge=J`, the same for every page."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct
from starlette.datastructures import QueryParams

from longmemeval.results.compared import baseline_first, in_order_named, with_first


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
