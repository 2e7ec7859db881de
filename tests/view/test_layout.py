"""Pages and reports as they are laid out in a browser, on a small laptop and a phone: measured, not looked at."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from longmemeval import settings
from longmemeval.report.write import write_report
from longmemeval.settings import Folders
from tests.made_once import sample_demo
from tests.measured import FINE, measured
from tests.report.report_runs import eight_of_a_sweep
from tests.support import ROOT
from tests.view.conftest import Visit

Mark = tuple[str, str]
"""Class, which has the colour, and path of a mark."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    folder = sample_demo(tmp_path_factory).folder
    return settings.folders(ROOT / "data", folder / "prepared-data", folder / "results")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return eight_of_a_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def report(sweep: Folders) -> Path:
    file = sweep.results_dir / "report.html"
    write_report(runs_of(sweep), file, folders=sweep)
    return file


def runs_of(folders: Folders) -> list[str]:
    return sorted(path.parent.name for path in folders.results_dir.glob("*/run.json"))


def opened(visit: Visit, folders: Folders, path: str, width: int) -> Page:
    """A page on all runs, with its pictures, and nothing folded."""
    chosen = "&".join(f"run={run}" for run in runs_of(folders))
    page = visit(folders, f"{path}{'&' if '?' in path else '?'}{chosen}", width=width)
    page.wait_for_load_state("networkidle")
    if path == "/compare":
        page.locator("#pictures .card").first.wait_for()
    return unfolded(page)


def unfolded(page: Page) -> Page:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return page


def of_report(chromium: Browser, report: Path, width: int) -> Page:
    page = chromium.new_page(viewport={"width": width, "height": 900})
    page.goto(report.as_uri())
    page.wait_for_selector("#question-box tbody tr")
    return unfolded(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_pages_of_the_demo_fit(demo: Folders, visit: Visit, width: int) -> None:
    for path in ("/runs", "/compare", "/questions", "/question?q=smp_a001", "/explore?q=smp_a001"):
        assert measured(opened(visit, demo, path, width)) == FINE, path


@pytest.mark.parametrize("width", [1280, 390])
def test_eight_runs_of_a_sweep_fit(sweep: Folders, report: Path, visit: Visit, chromium: Browser, width: int) -> None:
    for path in ("/runs", "/compare", "/questions?show=all"):
        assert measured(opened(visit, sweep, path, width)) == FINE, path
    assert measured(of_report(chromium, report, width)) == FINE


def test_the_demos_report_fits(demo: Folders, chromium: Browser) -> None:
    for width in (1280, 390):
        page = of_report(chromium, demo.results_dir / "demo-report.html", width)
        assert measured(page) == FINE, width


def test_charts_stand_above_the_questions_and_the_counts_head_in_two_lines(
    sweep: Folders, report: Path, visit: Visit, chromium: Browser
) -> None:
    page = of_report(chromium, report, 1280)
    tops = "all => all.map((one) => one.getBoundingClientRect().top)"
    questions = page.locator("#question-box").evaluate("one => one.getBoundingClientRect().top")
    assert 0 < max(page.eval_on_selector_all("figure.chart", tops)) < questions
    for shown in (page, opened(visit, sweep, "/compare", 1280)):
        head = shown.locator(".scores th.changes")
        assert head.inner_text().split() == ["questions", "better", "/", "worse", "/", "same"]
        lines = head.evaluate("""one => {
          const range = document.createRange(); range.selectNodeContents(one);
          return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size; }""")
        assert lines == 2


_HEADS = r"""all => all.map((one) => {
  const [name, column] = [one.querySelector(".upright"), one].map((x) => x.getBoundingClientRect());
  const rows = one.closest("table").tBodies[0].rows;
  const under = rows[0].children[one.cellIndex].getBoundingClientRect();
  const inside = column.left <= name.left && name.right <= column.right && Math.abs(column.left - under.left) < 1;
  return [one.querySelector(".upright").innerText.split(/\s\(/)[0], name.bottom <= under.top, inside];
})"""
"""The name in each head, whether it is above the cells, and whether it is as wide as they are at most."""


def test_names_stand_upright_above_their_columns(sweep: Folders, report: Path, visit: Visit, chromium: Browser) -> None:
    expected = {
        f"{name}, {method}"
        for name in ("full-history", "bm25", "hybrid top_k=5 message_range=0", "hybrid top_k=10 message_range=0")
        for method in ("direct", "con")
    }
    for page in (
        opened(visit, sweep, "/questions?show=all", 1280),
        opened(visit, sweep, "/compare", 1280),
        of_report(chromium, report, 1280),
    ):
        for table in page.locator("table:has(.upright)").all():
            heads = table.locator("thead th:has(.upright)").evaluate_all(_HEADS)
            assert heads == [[name, True, True] for name, *_ in heads]
            assert {name for name, *_ in heads} == expected


def marks(page: Page, rows: str) -> dict[str, Mark]:
    """The mark of each memory that is named in a row, by the name."""
    return dict(
        page.eval_on_selector_all(
            rows,
            """all => all.map((one) => {
              const mark = one.querySelector("svg.mark"), name = one.querySelector(".named, a, .upright");
              return [name.innerText.trim(), [mark.classList.value, mark.firstElementChild.getAttribute("d")]];
            })""",
        )
    )


def test_a_memory_has_one_mark_on_every_page_whatever_else_is_on_it(
    demo: Folders, visit: Visit, chromium: Browser
) -> None:
    runs = marks(opened(visit, demo, "/runs", 1280), "table.list tbody th")
    expected = {name: mark for name, mark in runs.items() if "parrot" not in name}
    assert set(expected) >= {"hybrid", "bm25", "full-history", "oracle"}
    assert len(set(map(str, expected.values()))) == len(expected)
    shown = [
        marks(opened(visit, demo, "/compare", 1280), ".scores tbody th"),
        marks(opened(visit, demo, "/questions", 1280), ".grid thead th:has(svg)"),
        marks(opened(visit, demo, "/question?q=smp_a001", 1280), ".answer h2"),
        marks(visit(demo, "/compare?run=demo-hybrid&run=demo-last-k"), ".scores tbody th"),
        marks(of_report(chromium, demo.results_dir / "demo-report.html", 1280), ".scores tbody th"),
    ]
    for found in shown:
        assert {"hybrid", "last-k"} <= set(found)
        for name, mark in found.items():
            assert mark == expected.get(name, mark), name
