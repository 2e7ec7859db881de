"""Hold what all pages share: the folders, the opened runs, and the runs that an address selects."""

from contextlib import suppress

from starlette.requests import Request

from longmemeval.errors import HarnessError
from longmemeval.results.compared import newest_alike
from longmemeval.settings import Folders
from longmemeval.view.explorer import Recallers
from longmemeval.view.opened import NOTHING_NAMED, Choice, RunCache, choice_of
from longmemeval.view.search.patterns import RecalledTexts


class Site:
    """The state of one server.

    Args:
        named: the choice for addresses that name no run; if it has no runs, those like the newest graded run.
    """

    def __init__(self, folders: Folders, named: Choice = NOTHING_NAMED) -> None:
        self.folders = folders
        self.named = named
        self.opened = RunCache(folders)
        self.recallers = Recallers(folders)
        self.recalled = RecalledTexts()

    def choice(self, request: Request) -> Choice:
        """Return the runs, baseline and judge that the address selects."""
        query = request.query_params
        otherwise = NOTHING_NAMED if query.getlist("run") else self.first()
        return choice_of(query, self.folders.results_dir, otherwise)

    def graded(self, request: Request) -> Choice:
        """Return the runs, baseline and judge that the address selects, with at least one run.

        Raises:
            HarnessError: no run is graded yet.
        """
        choice = self.choice(request)
        if not choice.runs:
            raise HarnessError("No run is graded yet", fix="`longmemeval evaluate RUN` grades one")
        return choice

    def first(self) -> Choice:
        """Return the choice for an address that names no run."""
        if self.named.runs:
            return self.named
        return Choice(tuple(newest_alike(self.folders.results_dir)), self.named.judge)

    def open_ahead(self) -> None:
        """Open the runs that pages show first, while the browser starts; errors are left for the pages to report."""
        with suppress(HarnessError, OSError):
            if (choice := self.first()).runs:
                self.opened.comparison(choice)


def site_of(request: Request) -> Site:
    """Return the state of the server that answers a request."""
    site = request.app.state.site
    if not isinstance(site, Site):
        raise TypeError(f"not a site: {site!r}")
    return site
