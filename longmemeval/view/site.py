"""What all pages share: the folders, the opened runs, and which runs an address asks for."""

from contextlib import suppress

from starlette.requests import Request

from longmemeval.errors import HarnessError
from longmemeval.results.listing import list_runs
from longmemeval.settings import Folders
from longmemeval.view.choice import Choice, choice_of, comparable_with_newest
from longmemeval.view.explorer.recall import Recallers
from longmemeval.view.opened import OpenRuns
from longmemeval.view.search.literal import RecalledTexts


class Site:
    """The state of one server.

    Args:
        where: the folders.
        named: the runs that pages show where their address names none; empty: those like the newest graded one.
    """

    def __init__(self, where: Folders, named: tuple[str, ...] = ()) -> None:
        self.where = where
        self.named = named
        self.opened = OpenRuns(where)
        self.recallers = Recallers(where)
        self.recalled = RecalledTexts()

    def choice(self, request: Request) -> Choice:
        """Return which runs, baseline and judge the address asks for."""
        query = request.query_params
        if query.getlist("run"):
            return choice_of(query)
        return choice_of(query, self.named or comparable_with_newest(list_runs(self.where.results_dir)))

    def open_ahead(self) -> None:
        """Open the runs that pages show first, while the browser starts; what is wrong with them, pages say."""
        with suppress(HarnessError, OSError):
            runs = self.named or comparable_with_newest(list_runs(self.where.results_dir))
            if runs:
                self.opened.comparison(Choice(tuple(runs)))


def site_of(request: Request) -> Site:
    """Return the state of the server that answers a request."""
    site = request.app.state.site
    if not isinstance(site, Site):
        raise TypeError(f"not a site: {site!r}")
    return site
