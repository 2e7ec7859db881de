"""What an address chooses of the questions: the server and the browser choose alike, whatever is asked."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urljoin, urlsplit

import pytest

from longmemeval.settings import Folders
from longmemeval.view.opened import Choice
from longmemeval.view.pages.questions import rows_in
from longmemeval.view.selected import selection_of
from longmemeval.view.site import Site
from tests.pipeline.graded_runs import graded_run
from tests.pipeline.helpers import colours, folders_in
from tests.report.report_runs import memory, three_runs
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
CONTROLS: dict[str, dict[str, Any]] = {
    "base": memory("first"),
    "one": memory("second"),
    "other": memory("third"),
    "gold": {"memory": {"name": "oracle", "preset": "oracle", "parameters": {}}, "reads_gold": True},
    "parrot": {"model": {"spec": "offline/parrot"}},
}
ASKED_OF_CONTROLS = (
    *(f"show={name}" for name in ("all", "differ", "lost", "won", "unchanged", "wrong", "found")),
    *(f"show={name}&of={run}" for name in ("lost", "won", "unchanged") for run in ("one", "gold", "parrot")),
    "only=one",
    "only=gold",
    "show=all&sort=regression",
    "show=lost&of=gold&sort=regression",
    "show=all&sort=disagreement",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("selected"))


@pytest.fixture(scope="module")
def with_controls(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """A baseline, two memories and two controls over 12 questions, each right on others of them."""
    path = tmp_path_factory.mktemp("controls")
    dataset, folders = colours(path / "d.json", 12), folders_in(path)
    for place, (run_id, settings) in enumerate(CONTROLS.items()):
        graded_run(dataset, folders, run_id, [(at * (place + 2)) % 5 < 2 for at in range(12)], settings=settings)
    return folders


@pytest.mark.thorough
def test_the_browser_chooses_as_the_server_does(folders: Folders, visit: Visit) -> None:
    alike(folders, visit, CHOICE, ASKED)


@pytest.mark.thorough
def test_they_do_where_there_are_controls(with_controls: Folders, visit: Visit) -> None:
    found = alike(with_controls, visit, Choice(tuple(CONTROLS)), ASKED_OF_CONTROLS)
    # Controls count where they are asked for alone.
    assert found["show=lost"] != found["show=lost&of=gold"] != found["show=lost&of=parrot"]


def alike(folders: Folders, visit: Visit, choice: Choice, addresses: Sequence[str]) -> dict[str, list[str]]:
    """Check that both choose the same questions in the same order, and return them."""
    site = Site(folders)
    comparison = site.opened.comparison(choice)
    ids, found = [row.question_id for row in comparison.questions], dict[str, list[str]]()
    page = visit(folders, choice.address("/questions"))
    for asked in addresses:
        chosen = [ids[row] for row in rows_in(site, comparison, selection_of(dict(parse_qsl(asked)), "q"))]
        page.goto(urljoin(page.url, f"{choice.address('/questions')}&{asked}"))
        page.wait_for_selector("html[data-ready=matrix]")
        if "&in=" in asked:
            page.locator(".grid tbody a").first.wait_for()
        links = page.eval_on_selector_all(".grid tbody a", "all => all.map(one => one.href)")
        found[asked] = [parse_qs(urlsplit(one).query)["q"][0] for one in links]
        assert found[asked] == chosen, asked
    return found


@pytest.mark.thorough
def test_the_hint_on_controls_leads_to_what_one_lost(with_controls: Folders, visit: Visit) -> None:
    for scripts in (True, False):
        page = visit(with_controls, Choice(tuple(CONTROLS)).address("/questions"), scripts=scripts)
        page.get_by_role("link", name="oracle", exact=True).click()
        page.wait_for_url("**show=lost&of=gold**")
        assert page.locator(".grid tbody a").count() == len(
            [1 for at in range(12) if (at * 2) % 5 < 2 and not (at * 5) % 5 < 2]
        )


def test_what_is_chosen_is_there_without_scripts(folders: Folders) -> None:
    client = visitor(folders)
    page = client.get(f"/questions?{THREE}&show=lost&of=good-again").text
    assert page.count("question-link") == 8
    assert "8 of 12" in page
    assert "No questions match" in client.get(f"/questions?{THREE}&q=no+such+words").text
    assert client.get(f"/questions?{THREE}").text.count("question-link") == 11
