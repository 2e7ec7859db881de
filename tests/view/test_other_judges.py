"""Two runs that different judges graded: named in red, side by side, and no difference is said, in a real browser."""

import html

import pytest
from playwright.sync_api import expect

from longmemeval.settings import Folders
from tests.pipeline.graded_runs import LENIENT, STRICT, grade, graded_run, labels
from tests.pipeline.helpers import colours, folders_in
from tests.view.client import visitor
from tests.view.conftest import Visit

BOTH = "run=ours&run=theirs"
SAID = ("better", "worse", "No difference", "wins", "does as well")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """`ours` is graded by one judge, `theirs` by another one, `both` by the two."""
    path = tmp_path_factory.mktemp("judges")
    dataset, folders = colours(path / "d.json", 30), folders_in(path)
    graded_run(dataset, folders, "ours", labels(27, 3), judge=STRICT)
    graded_run(dataset, folders, "theirs", labels(6, 24), judge=LENIENT)
    graded_run(dataset, folders, "both", labels(6, 24), judge=STRICT)
    ids = [question.question_id for question in dataset.questions()]
    grade(dataset, folders, "both", dict(zip(ids, labels(20, 10), strict=True)), judge=LENIENT)
    return folders


def test_chosen_on_the_list_they_stand_side_by_side_below_a_red_line(folders: Folders, visit: Visit) -> None:
    page = visit(folders, "/runs")
    for run in ("ours", "theirs"):
        page.get_by_label(f"Choose {run}", exact=True).check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    red = page.locator(".danger")
    expect(red).to_contain_text("The runs are scored by different judges")
    beside = page.get_by_role("region", name="Side by side")
    for judge, run, score in ((STRICT, "ours", "90.0%"), (LENIENT, "theirs", "20.0%")):
        expect(red).to_contain_text(f"{run}: {judge.id}")
        expect(beside).to_contain_text(score)
        expect(page.locator("main")).to_contain_text(f"judge: {judge.model}")
    text = page.locator("main").inner_text()
    assert not any(one in text for one in SAID), text
    assert page.locator("#verdict").count() == 0


def test_one_judge_that_both_have_compares_them(folders: Folders, visit: Visit) -> None:
    """`both` has its newest score from the other judge; that of the one that has graded both leads to the verdict."""
    page = visit(folders, "/compare?run=ours&run=both")
    expect(page.locator(".danger")).to_contain_text("different judges")
    page.get_by_role("link", name=STRICT.id).click()
    expect(page.locator("#verdict")).to_contain_text(
        "both (20.0%) is significantly worse than ours (90.0%): -70.0 points"
    )
    assert f"judge={STRICT.id}" in page.url


@pytest.mark.slow
def test_a_judge_that_one_of_them_lacks_is_named_and_left_by_a_link(folders: Folders) -> None:
    client = visitor(folders)
    refused = client.get(f"/compare?{BOTH}&judge={LENIENT.id}")
    assert refused.status_code == 409
    assert "Run 'ours' has no judge of that name" in html.unescape(refused.text)
    assert f'href="/compare?{BOTH.replace("&", "&amp;")}"' in refused.text
    for path in ("questions", "question"):
        answer = client.get(f"/{path}?{BOTH}")
        assert (answer.status_code, "scored by different judges" in answer.text) == (409, True)
