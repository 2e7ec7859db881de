"""The page of a question, the explorer and labels in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from longmemeval import settings
from longmemeval.settings import Folders
from tests.made_once import sample_demo
from tests.report.report_runs import hostile_run, three_runs
from tests.support import ROOT
from tests.view.conftest import Visit
from tests.view.test_browser import serious

THREE = "run=good&run=bad&judge=strict"
DEMO = "run=demo-hybrid&run=demo-last-k"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("question"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    folder = sample_demo(tmp_path_factory).folder
    return settings.folders(ROOT / "data", folder / "prepared-data", folder / "results")


def test_why_a_question_was_lost_is_two_clicks_from_the_matrix(folders: Folders, visit: Visit) -> None:
    page = visit(folders, f"/questions?{THREE}&show=lost")
    page.locator(".grid tbody a").nth(1).click()
    expect(page.get_by_role("list", name="Why the answer is wrong")).to_contain_text("last-k")
    expect(page.get_by_role("list", name="Why the answer is wrong")).to_contain_text("cut before the prompt")


@pytest.mark.thorough
def test_a_long_answer_is_folded_until_it_is_asked_for_and_open_on_paper(demo: Folders, visit: Visit) -> None:
    """That of the parrot, which says all that was recalled; with scripts and without."""
    for scripts in (True, False):
        page = visit(demo, "/question?run=demo-hybrid&run=demo-parrot&q=smp_e162_abs", scripts=scripts)
        answer = page.locator(".folded")
        assert answer.count() == 1
        whole = answer.evaluate("one => one.scrollHeight")
        assert answer.evaluate("one => one.clientHeight") < whole / 3
        box = page.get_by_role("checkbox", name=re.compile(r"show all \d,\d{3} characters"))
        box.check()
        assert answer.evaluate("one => one.clientHeight") == whole
        box.uncheck()
        assert answer.evaluate("one => one.clientHeight") < whole / 3
        page.emulate_media(media="print")
        assert answer.evaluate("one => one.clientHeight >= one.scrollHeight")
        expect(box).to_be_hidden()


def test_keys_go_through_questions(folders: Folders, visit: Visit) -> None:
    page = visit(folders, f"/question?{THREE}&q=q1")
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


@pytest.mark.thorough
def test_keys_stay_within_what_the_address_chooses(folders: Folders, visit: Visit) -> None:
    """The filter and the order of the matrix go on, whichever way they were set; what nobody chose is not met."""
    page = visit(folders, f"/questions?{THREE}&show=lost&type=multi-session&sort=tokens")
    page.wait_for_selector("html[data-ready=matrix]")
    listed = [re.sub(r"\D", "", one) for one in page.locator(".grid tbody a").all_inner_texts()]
    assert listed == ["1", "4", "7", "10"]
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=q4"))
    expect(page.locator(".steps")).to_contain_text("2 of 4 questions lost to the baseline, multi-session, by tokens")
    expect(page.locator(".side a[aria-current]")).to_have_text("Questions")
    for name in ("q7", "q10"):
        page.keyboard.press("j")
        page.wait_for_url(re.compile(f"q={name}(&|$)"))
    assert page.locator("[data-press=j]").count() == 0
    page.keyboard.press("/")
    page.wait_for_selector("html[data-ready=matrix]")
    assert page.locator(".grid tbody a").count() == 4


@pytest.mark.thorough
def test_eight_runs_fit_a_small_laptop_and_a_phone(demo: Folders, visit: Visit) -> None:
    """At 1,280 px no table that matters is scrolled sideways; on a phone no page is, and each run is a list."""
    wider = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"
    for path in ("/runs", "/compare", "/questions", "/question", "/explore", "/labels", "/live"):
        page = visit(demo, path)
        page.wait_for_load_state("load" if path == "/live" else "networkidle")
        assert page.eval_on_selector_all(".scroll, .box", wider) == [], path
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.eval_on_selector_all(".scroll:has(> .stack), .scroll > .stack", wider) == [], path


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1920])
def test_pages_fit_and_nothing_is_serious_to_axe(folders: Folders, demo: Folders, visit: Visit, width: int) -> None:
    for folder, path in (
        (folders, f"/question?{THREE}&q=q1"),
        (demo, f"/question?{DEMO}&q=smp_a001"),
        (demo, f"/explore?{DEMO}&q=smp_a001"),
        (folders, f"/labels?{THREE}"),
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


@pytest.mark.thorough
def test_labels_in_two_windows_at_once(folders: Folders, visit: Visit) -> None:
    windows = [visit(folders, f"/question?{THREE}&q=q{number}&by=Eva") for number in (3, 4)]
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
