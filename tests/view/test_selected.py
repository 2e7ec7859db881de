"""What an address chooses of the questions: the server and the browser choose alike, whatever is asked."""

from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from longmemeval.settings import Folders
from longmemeval.view.choice import Choice
from longmemeval.view.pages.questions import rows_in
from longmemeval.view.selected import selection_of
from longmemeval.view.site import Site
from tests.report.report_runs import three_runs
from tests.view.client import visitor
from tests.view.conftest import Visit

THREE = "run=good&run=good-again&run=bad&judge=strict"
CHOICE = Choice(("good", "good-again", "bad"), "strict")
ASKED = (
    *(f"show={name}" for name in ("all", "differ", "lost", "won", "unchanged", "wrong", "disagree", "found")),
    "show=lost&of=good-again",
    "show=all&sort=regression",
    "show=all&sort=disagreement",
    "show=all&sort=tokens&type=multi-session",
    "only=good",
    "show=lost&stage=cut",
    "show=lost&stage=not+recalled",
    "q=BICYCLE7",
    "q=answer+3+of+bad",
    "q=answer+3+of+bad&in=answers",
    "q=painted+my+BICYCLE7&in=recalled",
    "q=%5Eanswer+[37]+of+bad&in=pattern",
    "show=nothing&of=nobody&type=none&stage=nowhere&sort=any",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("selected"))


def test_the_browser_chooses_as_the_server_does(folders: Folders, visit: Visit) -> None:
    site = Site(folders)
    comparison = site.opened.comparison(CHOICE)
    ids = [row.question_id for row in comparison.questions]
    for asked in ASKED:
        chosen = [ids[row] for row in rows_in(site, comparison, selection_of(dict(parse_qsl(asked)), "q"))]
        page = visit(folders, f"/questions?{THREE}&{asked}")
        page.wait_for_selector("html[data-ready=matrix]")
        if "&in=" in asked:
            page.locator(".grid tbody a").first.wait_for()
        links = page.eval_on_selector_all(".grid tbody a", "all => all.map(one => one.href)")
        assert [parse_qs(urlsplit(one).query)["q"][0] for one in links] == chosen, asked


def test_what_is_chosen_is_there_without_scripts(folders: Folders) -> None:
    client = visitor(folders)
    page = client.get(f"/questions?{THREE}&show=lost&of=good-again").text
    assert page.count("question-link") == 8
    assert "8 of 12" in page
    assert "No question is like that" in client.get(f"/questions?{THREE}&q=no+such+words").text
    assert client.get(f"/questions?{THREE}").text.count("question-link") == 11
