"""Read in other ways: without scripts, on paper, by keys alone, and from a disk."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from longmemeval import settings
from longmemeval.settings import Folders
from tests.made_once import sample_demo
from tests.pipeline.graded_runs import LENIENT, STRICT
from tests.report.report_runs import three_runs
from tests.support import ROOT, longmemeval
from tests.view.conftest import Visit

THREE = "run=good&run=good-again&run=bad&judge=strict"
PATHS = ("/runs", "/compare", "/compare/pictures", "/questions", "/question", "/explore", "/labels", "/live")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("reading"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    folder = sample_demo(tmp_path_factory).folder
    return settings.folders(ROOT / "data", folder / "prepared-data", folder / "results")


@pytest.mark.thorough
@pytest.mark.slow
def test_without_scripts_every_page_is_readable_and_nothing_is_dead(demo: Folders, visit: Visit) -> None:
    for path in PATHS:
        page = visit(demo, path, scripts=False)
        assert page.locator("h1").inner_text().strip(), path
        for button in page.locator("button:visible").all():
            assert button.get_attribute("type") != "button", f"{path}: {button.inner_text()} needs a script"
            assert button.evaluate("one => one.form !== null"), path
        assert page.locator("main a[href='#']").count() == 0, path
    # From the runs to why one question was lost.
    page = visit(demo, "/runs", scripts=False)
    for run in ("demo-hybrid", "demo-last-k"):
        page.get_by_label(f"Choose {run}", exact=True).check()
    page.get_by_label("Compare with demo-hybrid", exact=True).check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"last-k \(.*%\) is significantly worse than hybrid"))
    page.locator(".stack a.bad").click()
    expect(page.locator(".chip[aria-current]")).to_have_text("lost to the baseline")
    lost = page.locator(".grid tbody a").count()
    page.locator(".grid tbody a").first.click()
    expect(page.locator(".steps")).to_contain_text(f"1 of {lost} questions lost to the baseline")
    expect(page.get_by_role("list", name="Why the answer is wrong")).to_contain_text("last-k")
    page.locator("a[rel=next]").click()
    expect(page.locator(".steps")).to_contain_text(f"2 of {lost} questions")
    page.get_by_role("link", name="Try in the recall explorer").click()
    page.get_by_label("last_messages").fill("3")
    page.get_by_role("button", name="Recall", exact=True).click()
    expect(page.get_by_label("last_messages")).to_have_value("3")
    expect(page.locator("#result")).to_contain_text("3 messages")


CUT = """all => all.filter((one) => {
  const style = getComputedStyle(one);
  if (style.clipPath !== "none" || one.closest("svg, select, .hidden-text")
    || style.visibility === "hidden") return false;
  return (style.overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1)
    || (style.overflowY !== "visible" && one.scrollHeight > one.clientHeight + 1);
}).map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`)"""


@pytest.mark.thorough
@pytest.mark.slow
def test_on_paper_nothing_is_cut_and_folded_notes_are_open(demo: Folders, visit: Visit) -> None:
    for path in PATHS:
        page = visit(demo, path)
        page.wait_for_load_state("load" if path == "/live" else "networkidle")
        page.set_viewport_size({"width": 720, "height": 1000})  # A4 between its margins, in CSS pixels.
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        # What was folded is laid out in the frame after the one that knows it is paper.
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.eval_on_selector_all("main *", CUT) == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 39)", path  # Ink on white.
        # Not on paper at all: filters, and the settings that the explorer has of some memories.
        for_screens = page.locator("main :is(.tools, .explore) details > *, main .tools > *")
        assert for_screens.locator("visible=true").count() == 0, path
        folds = "main details:not(.label, .tools, .explore details)"
        assert page.locator(f"{folds} > :not(summary):visible").count() >= page.locator(folds).count(), path
        if path == "/questions":
            # Those that the heading counts, which leaves controls out as the filter does.
            differ = int(page.locator("h1").inner_text().split(" differ")[0])
            assert page.locator(".grid tbody a").count() == differ > 50
            page.emulate_media(media="screen")
            page.evaluate("dispatchEvent(new Event('afterprint'))")
            expect(page.locator(".grid tbody a")).not_to_have_count(differ)


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until this has the focus, and see that it shows."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            assert wanted.evaluate("one => getComputedStyle(one).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab does not reach {wanted}")


@pytest.mark.thorough
def test_by_keys_alone_from_the_runs_to_a_label(folders: Folders, visit: Visit) -> None:
    page = visit(folders, "/runs?judge=strict")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    for run in ("good", "bad"):
        tab_to(page, page.get_by_label(f"Choose {run}", exact=True))
        page.keyboard.press("Space")
    tab_to(page, page.get_by_role("button", name="Compare the chosen runs"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare**")
    for baseline in ("bad", "good"):
        page.keyboard.press("b")
        page.wait_for_url(f"**baseline={baseline}**")
    tab_to(page, page.locator(".stack a.bad"))
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready=matrix]")
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_url("**/question?**")
    expect(page.get_by_role("list", name="Why the answer is wrong")).to_contain_text("cut before the prompt")
    page.keyboard.press("e")
    expect(page.locator("tr.evidence").first).to_be_focused()
    question = page.locator("h1").inner_text()
    page.keyboard.press("k")
    expect(page.locator("h1")).not_to_have_text(question)
    tab_to(page, page.locator("#answer-2 summary", has_text="label it"))
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("Ida")
    tab_to(page, page.locator("#answer-2 form button").first)
    page.keyboard.press("Enter")
    expect(page.locator("#answer-2")).to_contain_text("Ida")
    expect(page.locator(".steps")).to_contain_text("lost to the baseline")


@pytest.mark.thorough
def test_the_export_is_by_the_judge_that_is_named(folders: Folders, tmp_path: Path) -> None:
    line: list[str | Path] = ["view", "good", "--export", tmp_path, "--results-dir", folders.results_dir]
    for judge in (STRICT, LENIENT):
        longmemeval(*line, "--judge", judge.model, cwd=tmp_path)
        assert f"judge {judge.model}, prompts: by hand (not official)" in (tmp_path / "index.html").read_text()


@pytest.mark.thorough
def test_the_export_opens_from_a_disk_with_nothing_dead(folders: Folders, tmp_path: Path, chromium: Browser) -> None:
    target = tmp_path / "page"
    line: list[str | Path] = ["view", "good-again", "bad", "--export", target, "--results-dir", folders.results_dir]
    longmemeval(*line, cwd=tmp_path)
    context = chromium.new_context(offline=True)
    troubles: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    page.goto((target / "index.html").as_uri())
    for href in page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))"):
        assert re.match(r"#|https?://", href), href
        if re.fullmatch(r"#[\w-]+", href):
            assert page.locator(href).count() == 1, href
    assert page.locator("form[action]").count() == 0
    assert page.get_by_role("link", name=re.compile("explorer|Live|Labels")).count() == 0
    for button in page.locator("#question-box button.open").all()[:3]:
        button.click()
    expect(page.locator("#question-box")).to_contain_text("answer 0 of good-again")
    assert troubles == []
    context.close()
