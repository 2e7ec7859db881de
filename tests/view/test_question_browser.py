"""The page of a question, the explorer and labels in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from longmemeval.settings import Folders, folders
from tests.made_once import sample_demo
from tests.report.report_runs import hostile_run, three_runs
from tests.support import ROOT
from tests.view.conftest import Visit
from tests.view.test_browser import serious

THREE = "run=good&run=bad&judge=strict"
DEMO = "run=demo-hybrid&run=demo-last-k"


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("question"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    folder = sample_demo(tmp_path_factory).folder
    return folders(ROOT / "data", folder / "prepared-data", folder / "results")


def test_why_a_question_was_lost_is_two_clicks_from_the_matrix(where: Folders, visit: Visit) -> None:
    page = visit(where, f"/questions?{THREE}&show=lost")
    page.locator(".grid tbody a").nth(1).click()
    expect(page.get_by_role("list", name="Why it was lost")).to_contain_text("last-k")
    expect(page.get_by_role("list", name="Why it was lost")).to_contain_text("cut before the prompt")


def test_keys_go_through_questions(where: Folders, visit: Visit) -> None:
    page = visit(where, f"/question?{THREE}&q=q1")
    page.keyboard.press("j")
    page.wait_for_url(re.compile("q=q2"))
    page.keyboard.press("k")
    page.wait_for_url(re.compile("q=q1(&|$)"))
    page.keyboard.press("e")
    expect(page.locator("tr.evidence").first).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("the next question on which the runs differ")
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.wait_for_url(re.compile("run=bad&run=good"))
    page.keyboard.press("/")
    page.wait_for_url(re.compile("/questions"))


@pytest.mark.parametrize("width", [390, 1920])
def test_pages_fit_and_nothing_is_serious_to_axe(where: Folders, demo: Folders, visit: Visit, width: int) -> None:
    for folder, path in (
        (where, f"/question?{THREE}&q=q1"),
        (demo, f"/question?{DEMO}&q=smp_a001"),
        (demo, f"/explore?{DEMO}&q=smp_a001"),
        (where, f"/labels?{THREE}"),
    ):
        page = visit(folder, path, width=width, scheme="dark" if width == 390 else "light")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert serious(page) == [], path


def test_the_explorer_changes_at_once_and_the_address_follows(demo: Folders, visit: Visit) -> None:
    page = visit(demo, f"/explore?{DEMO}&q=smp_a001&memory=hybrid")
    result = page.locator("#result")
    expect(result).to_contain_text("evidence 2 of 3")
    page.get_by_label("top_k").fill("60")
    expect(result).to_contain_text("evidence 3 of 3")
    assert "set.top_k=60" in page.url
    page.reload()
    expect(page.locator("#result")).to_contain_text("evidence 3 of 3")
    page.get_by_label("memory").select_option("bm25")
    page.wait_for_url(re.compile("memory=bm25"))
    expect(page.locator("#result thead")).not_to_contain_text("vectors")


def test_labels_in_two_windows_at_once(where: Folders, visit: Visit) -> None:
    windows = [visit(where, f"/question?{THREE}&q=q{number}&by=Eva") for number in (3, 4)]
    for page in windows:
        page.locator("#answer-1 summary", has_text="label it").click()
    for page in windows:
        page.locator("#answer-1").get_by_role("button", name="disagree").click()
    for page in windows:
        expect(page.locator("#answer-1")).to_contain_text("Eva")
    windows[0].goto(windows[0].url.partition("/question")[0] + f"/labels?{THREE}")
    expect(windows[0].locator("table")).to_contain_text("Eva")
    expect(windows[0].locator("table")).to_contain_text("q3, q4")


def test_hostile_data_do_no_harm(tmp_path_factory: pytest.TempPathFactory, visit: Visit) -> None:
    hostile = hostile_run(tmp_path_factory.mktemp("hostile"))
    for path in ("/question?run=one&run=two", "/explore?run=one", "/labels?run=one"):
        page = visit(hostile, path)
        assert page.evaluate("window.harmed") is None, path
