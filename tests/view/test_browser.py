"""The pages in a real browser: keys, filters in the address, light and dark, narrow and wide, readable by everybody."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from longmemeval.settings import Folders
from tests.report.report_runs import hostile_run, many_runs, three_runs
from tests.view.conftest import Scheme, Visit
from tests.view.edges import is_shaded_at_right, scroll_to_end

THREE = "run=good&run=good-again&run=bad&judge=strict"
PAGES = ("/runs", f"/compare?{THREE}", f"/questions?{THREE}&show=all", "/live", f"/compare/pictures?{THREE}")
AXE = Path(__file__).parent / "axe" / "axe.min.js"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("view"))


def ready(page: Page) -> Page:
    page.wait_for_selector("html[data-ready=matrix]")
    return page


def rows(page: Page) -> list[str]:
    return page.locator(".grid tbody th").all_inner_texts()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        pytest.param(1920, "light", marks=pytest.mark.thorough),
        pytest.param(390, "light", marks=pytest.mark.thorough),
        pytest.param(1920, "dark", marks=pytest.mark.thorough),
    ],
)
def test_pages_fit_and_nothing_is_serious_to_axe(folders: Folders, visit: Visit, width: int, scheme: Scheme) -> None:
    for path in PAGES:
        page = visit(folders, path, width=width, scheme=scheme)
        page.wait_for_load_state("load" if path == "/live" else "networkidle")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert serious(page) == [], path


def serious(page: Page) -> list[str]:
    """What axe finds serious or worse; it is run from outside, as the policy lets no page of ours load it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_axe_finds_what_is_wrong(folders: Folders, visit: Visit) -> None:
    """The control of the test above."""
    page = visit(folders, "/runs")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any(one.startswith("button-name") for one in serious(page))


def test_keys_choose_questions_and_the_address_says_so(folders: Folders, visit: Visit) -> None:
    page = ready(visit(folders, f"/questions?{THREE}"))
    assert len(rows(page)) == 11  # They differ on all but the one nobody gets right.
    page.keyboard.press("a")
    assert len(rows(page)) == 1
    assert "show=wrong" in page.url
    page.keyboard.press("l")
    page.locator("select").nth(2).select_option("good-again")
    assert len(rows(page)) == 8
    assert "of=good-again" in page.url
    page.reload()
    assert len(rows(ready(page))) == 8
    page.keyboard.press("g")
    assert len(rows(page)) == 1
    page.keyboard.press("0")
    page.keyboard.press("/")
    page.keyboard.type("nothing has these words")
    expect(page.locator(".grid tbody")).to_contain_text("No questions match")
    assert "q=nothing" in page.url


def test_repeats_are_one_column_until_unfolded(folders: Folders, visit: Visit) -> None:
    page = ready(visit(folders, f"/questions?{THREE}&show=all"))
    assert page.locator(".grid tbody tr").first.locator(".cell").all_inner_texts()[0] == "2/2"
    assert page.locator(".grid thead th").count() == 5
    page.get_by_role("button", name="fold repeats").click()
    assert page.locator(".grid thead th").count() == 6


def test_a_phone_shows_questions_first_and_filters_when_asked(folders: Folders, visit: Visit) -> None:
    page = ready(visit(folders, f"/questions?{THREE}", width=390))
    lost, search = page.get_by_role("button", name="worse than baseline"), page.locator("#search")
    expect(page.locator(".tools > summary")).to_have_text("Filter, search, sort: differ")
    expect(lost).to_be_hidden()
    page.locator(".tools > summary").click()
    lost.click()
    expect(page.locator(".tools > summary")).to_have_text("Filter, search, sort: worse than baseline")
    page.locator(".tools > summary").click()
    expect(search).to_be_hidden()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    # A screen that becomes wide shows them all, with nothing to fold them.
    page.locator(".tools > summary").click()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(lost).to_be_visible()
    expect(page.locator(".tools > summary")).to_be_hidden()


@pytest.mark.slow
def test_a_phone_shows_each_interval_once(folders: Folders, visit: Visit) -> None:
    page = visit(folders, f"/compare?{THREE}", width=390)
    for row in page.locator("table.scores tbody tr").all():
        # The one with a sign is of the difference.
        shown = [one for one in row.inner_text().split("[")[1:] if not one.startswith(("+", "-"))]
        assert len(shown) == 1, row.inner_text()


def test_everything_can_be_reached_by_keys_alone(folders: Folders, visit: Visit) -> None:
    page = ready(visit(folders, f"/questions?{THREE}&show=all"))
    for _ in range(3):
        page.keyboard.press("j")
    assert page.locator("tr[aria-current=true]").get_attribute("data-at") == "3"
    page.keyboard.press("k")
    assert page.locator("tr[aria-current=true]").get_attribute("data-at") == "2"
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert "next that differs" in page.locator("#key-list").inner_text()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("b")
    page.wait_for_url("**run=good-again&run=bad&run=good*")


def test_runs_are_chosen_and_compared(folders: Folders, visit: Visit) -> None:
    page = visit(folders, "/runs?judge=strict")
    for run in ("good", "bad"):
        page.get_by_label(f"Choose {run}", exact=True).check()
    page.get_by_label("Compare with bad", exact=True).check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    expect(page.locator("#verdict")).to_contain_text("is significantly better than last-k (0.0%)")
    page.locator("#pictures .card").first.wait_for()
    page.locator("select[name=baseline]").select_option("good")
    expect(page.locator("#verdict")).to_contain_text("last-k (0.0%) is significantly worse than semantic (91.7%)")
    page.go_back()
    expect(page.locator("#verdict")).to_contain_text("is significantly better than last-k (0.0%)")


def test_hostile_texts_harm_nobody(tmp_path: Path, visit: Visit) -> None:
    folders = hostile_run(tmp_path)
    for path in ("/runs", "/compare", "/questions", "/live"):
        page = visit(folders, path)
        page.wait_for_load_state("load" if path == "/live" else "networkidle")
        assert page.evaluate("window.harmed") is None
    page = visit(folders, "/questions?show=all")
    assert "onerror" in ready(page).locator(".grid tbody").inner_text()


def test_a_run_is_followed_to_its_end(tmp_path: Path, visit: Visit) -> None:
    folders = three_runs(tmp_path)
    run = folders.results_dir / "bad" / "run.json"
    answers = folders.results_dir / "bad" / "answers.jsonl"
    whole, lines = run.read_text(), answers.read_bytes().splitlines(keepends=True)
    run.write_text(whole.replace('"status": "completed"', '"status": "interrupted"'))
    answers.write_bytes(b"".join(lines[:5]))
    page = visit(folders, "/live")
    page.wait_for_selector("html[data-ready=live]")
    expect(page.locator("#work tbody")).to_contain_text("5 of 12")
    with answers.open("ab") as file:
        file.write(b"".join(lines[5:]))
    expect(page.locator("#work tbody")).to_contain_text("12 of 12")
    run.write_text(whole)
    expect(page.locator("#head")).to_have_text("Nothing is running")
    expect(page.locator("#work tbody")).to_contain_text("completed")


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_wider_than_a_phone_says_so_at_the_edge(tmp_path: Path, visit: Visit, scheme: Scheme) -> None:
    """A shade where there is more, none where the end is reached or all is seen."""
    folders = many_runs(tmp_path, 15)
    page = visit(folders, "/questions?show=all", width=390, scheme=scheme)
    page.wait_for_load_state("networkidle")
    box = page.get_by_role("region", name="Questions")
    assert box.evaluate("one => one.scrollWidth > one.clientWidth")
    assert is_shaded_at_right(box)
    scroll_to_end(box)
    assert not is_shaded_at_right(box)
    page = visit(folders, "/compare", width=390, scheme=scheme)  # A list there.
    assert not is_shaded_at_right(page.get_by_role("region", name="Pairs"))
    page = visit(folders, "/compare", width=1920, scheme=scheme)
    assert not is_shaded_at_right(page.get_by_role("region", name="Pairs"))
