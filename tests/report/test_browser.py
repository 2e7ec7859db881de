"""The page in a real browser: it works by mouse and keyboard, harms nobody, asks nobody for anything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.text.figures import visible
from longmemeval.report.board import write_board
from longmemeval.report.charts.svg import looks_of
from longmemeval.report.write import ReportOptions, write_report
from tests.browser import chromium as system_chromium
from tests.measured import measured
from tests.pipeline.graded_runs import LENIENT, record_messages
from tests.report.report_runs import HOSTILE, hostile_run, large_run, many_runs, three_runs


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with system_chromium() as started:
        yield started


@dataclass
class Reader:
    """Opens pages and notes everything that goes wrong in them."""

    browser: Browser
    troubles: list[str] = field(default_factory=list)

    def open(self, file: Path, *, width: int = 1200, scheme: Literal["light", "dark"] = "light") -> Page:
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        own = file.as_uri()

        def asked(url: str) -> None:
            if url != own and not url.startswith("data:"):
                self.troubles.append(f"request for {url}")

        page.on("console", lambda message: self.troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        context.on("request", lambda request: asked(request.url))
        page.goto(own)
        return page


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    reader = Reader(browser)
    yield reader
    for context in browser.contexts:
        context.close()
    assert reader.troubles == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs A `good`, B `good-again`, C `bad`."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "report.html"
    options = ReportOptions(judge="strict", published="all")
    write_report(["good", "good-again", "bad"], file, options=options, folders=three_runs(folder, repeats=False))
    return file


def shown(page: Page) -> list[str]:
    """The ids of the questions in the table."""
    return page.locator("#question-box td.id").all_inner_texts()


def choice(page: Page, name: str) -> Locator:
    """A filter by its name."""
    return page.get_by_role("combobox", name=name, exact=True)


def test_every_section_is_there_and_headings_are_in_order(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    assert page.locator("h2").all_inner_texts() == [
        "Scores",
        "Question types",
        "Abilities",
        "Abstention",
        "Score and effort",
        "Evidence recall",
        "Wrong answers by cause",
        "Cost in US dollars (reported)",
        "Latency",
        "Judge agreement",
        "Published figures",
        "Questions",
        "Settings",
    ]
    levels = [int(name[1]) for name in page.eval_on_selector_all("h1,h2,h3,h4", "all => all.map(one => one.tagName)")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    targets = page.eval_on_selector_all("nav a", "all => all.map(one => one.getAttribute('href'))")
    assert all(page.locator(target).count() == 1 for target in targets)
    assert page.locator("html").get_attribute("lang") == "en"


def test_repeats_are_one_row_of_scores_and_a_column_each_of_questions(reader: Reader, tmp_path: Path) -> None:
    """`good` and `good-again` are right on 11 and 3 of 12: the row has their mean, and no single run's questions."""
    file = tmp_path / "report.html"
    write_report(
        ["good", "good-again", "bad"], file, options=ReportOptions(judge="strict"), folders=three_runs(tmp_path)
    )
    page = reader.open(file)
    assert page.get_by_role("heading", name="Repeats", exact=True).count() == 1
    scores = page.locator("#summary table.scores tbody tr")
    assert [one.locator("th").inner_text().strip() for one in scores.all()] == [
        "semantic baseline, 2 repeats",
        "last-k 1 not graded",
    ]
    assert [one.locator("td.score").inner_text() for one in scores.all()] == ["58.3%", "0.0%"]
    buttons = page.locator("#question-box thead th[data-key^=run-] button")
    assert [one.get_attribute("aria-label") for one in buttons.all()] == [
        "run semantic",
        "run semantic (repeat 2)",
        "run last-k",
    ]
    assert page.locator("#summary table.scores svg.interval").count() == 2


def test_the_key_of_a_chart_names_what_is_drawn(reader: Reader, tmp_path: Path) -> None:
    """Repeats are one row of it."""
    file = tmp_path / "report.html"
    write_report(
        ["good", "good-again", "bad"], file, options=ReportOptions(judge="strict"), folders=three_runs(tmp_path)
    )
    named = reader.open(file).locator("#types .key .named").all_inner_texts()
    assert [one.strip() for one in named] == ["semantic", "last-k"]


def test_the_summary_says_what_the_files_say(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    assert page.locator("h1").inner_text().startswith("good-again (25.0%), the highest-scoring memory, is significant")
    rows = page.locator("#summary table.scores tbody tr").all_inner_texts()
    cells = [[cell.strip() for cell in text.split("\t")] for text in rows]
    assert [one[0] for one in cells] == ["semantic baseline", "good-again", "last-k 1 not graded"]
    assert [one[1] for one in cells] == ["91.7%", "25.0%", "0.0%"]
    assert [one[3].split()[0] for one in cells] == ["baseline", "▼", "▼"]
    assert [one[4] for one in cells] == ["", "+0 -8 =4", "+0 -11 =1"]
    # A row is a line of text high, the bar of its tokens lower.
    heights = page.eval_on_selector_all(
        "#summary tr .amount", "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert len(heights) == 3
    assert max(heights) < 12
    # What the figures rest on is folded, and said once.
    notes = page.locator(".all-notes")
    assert not notes.locator("li").first.is_visible()
    notes.locator("summary").click()
    assert "Not the official judge" in notes.inner_text()
    lines = page.locator("#summary li").all_inner_texts()
    assert len(set(lines)) == len(lines)
    page.get_by_text("Pairwise differences").click()
    matrix = page.locator("details.pairs tbody tr").all_inner_texts()
    assert [line.split("\t")[1:] for line in matrix] == [
        ["", "+66.7 ▲", "+91.7 ▲"],
        ["-66.7 ▼", "", "+25.0"],
        ["-91.7 ▼", "-25.0", ""],
    ]


@pytest.mark.thorough
@pytest.mark.slow
def test_fifteen_runs_begin_with_the_verdict_and_fit_a_screen_a_phone_and_paper(reader: Reader, tmp_path: Path) -> None:
    runs = [f"run-{place:02}" for place in range(15)]
    write_report(runs, tmp_path / "report.html", folders=many_runs(tmp_path, 15))
    page = reader.open(tmp_path / "report.html", width=1280)
    # Of 12 questions `run-11` is right on 11, and `run-00`, the baseline, on none.
    assert page.locator("h1").inner_text().startswith("semantic-memory-11 (91.7%) is significantly better than")
    scores = page.locator(".box:has(> .scores)")
    assert scores.locator("tbody tr").count() == 15
    assert "baseline" in scores.locator("tr.is-baseline").inner_text()
    assert scores.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    notes = page.locator(".all-notes li").first
    assert not notes.is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    box = scores.locator("tbody td.plot").first.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390  # The interval is seen without scrolling.
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert notes.is_visible()


def test_the_address_keeps_filters_and_what_is_open(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    page.get_by_role("link", name="8 worse").click()
    assert shown(page) == [f"q{number}" for number in range(3, 11)]
    assert page.locator("#count").inner_text().startswith("8 of 12 questions, lost by good-again against semantic")
    page.get_by_role("button", name="What colour is my bicycle4?").click()
    choice(page, "type").select_option("multi-session")
    address = page.url
    assert address.endswith("#?type=multi-session&pattern=lost-1&open=q4")
    page.reload()
    assert shown(page) == ["q4", "q7", "q10"]
    assert page.locator("#detail-4").is_visible()
    page.get_by_role("button", name="clear filters").click()
    assert len(shown(page)) == 12
    page.get_by_role("button", name="differ 11").click()
    assert len(shown(page)) == 11
    page.get_by_role("button", name="differ 11").click()
    page.get_by_role("button", name="only semantic 8").click()
    assert len(shown(page)) == 8
    page.goto(address)
    assert choice(page, "type").input_value() == "multi-session"
    assert shown(page) == ["q4", "q7", "q10"]


def test_charts_are_drawn_and_told(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    drawings = page.locator(".drawing")
    names = page.eval_on_selector_all(".chart", "all => all.map(one => one.id)")
    assert len(names) == 7
    assert {"chart-tokens", "chart-cost", "chart-recall"} < set(names)
    for index in range(drawings.count()):
        drawing = drawings.nth(index)
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label") or "") > 40
        box = drawing.locator("svg").bounding_box()
        assert box is not None
        assert (box["width"] > 250, box["height"] > 60) == (True, True)
        sizes = drawing.locator("svg").evaluate(
            "svg => [...svg.querySelectorAll('path')].map(one => one.getBBox()).map(box => box.width + box.height)"
        )
        assert sum(size > 4 for size in sizes) > 3


def test_filters_narrow_the_table(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    everything = [*(f"q{number}" for number in range(11)), "q11_abs"]
    assert shown(page) == everything
    page.get_by_text("outcome of a run").click()
    choice(page, "type").select_option("multi-session")
    assert shown(page) == ["q1", "q4", "q7", "q10"]
    assert page.locator("#count").inner_text().startswith("4 of 12 questions")
    choice(page, "good-again").select_option("right")
    assert shown(page) == ["q1"]
    choice(page, "type").select_option("")
    assert shown(page) == ["q0", "q1", "q2"]
    choice(page, "good-again").select_option("")
    choice(page, "last-k").select_option("unjudged")
    assert shown(page) == ["q0"]
    choice(page, "last-k").select_option("")
    choice(page, "why wrong").select_option("cut")
    assert shown(page) == everything[1:]
    choice(page, "why wrong").select_option("")
    page.get_by_role("button", name="differ").click()
    assert shown(page) == everything[:-1]


def test_search_finds_words_of_questions_and_answers(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    search = page.get_by_role("searchbox")
    for words, found in (("BICYCLE7", ["q7"]), ("answer 3 of bad", ["q3"]), ("purple", ["q6"]), ("q11_", ["q11_abs"])):
        search.fill(words)
        assert shown(page) == found
    search.fill("no such word")
    assert page.locator("#count").inner_text().startswith("0 of 12 questions")


def test_headers_sort_up_and_down_and_back(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    header = page.get_by_role("columnheader", name="run good-again")
    button = header.get_by_role("button")
    button.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert shown(page)[:2] == ["q3", "q4"]
    button.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert shown(page)[:4] == ["q0", "q1", "q2", "q3"]
    button.press("Space")
    assert header.get_attribute("aria-sort") is None
    page.get_by_role("columnheader", name="type").get_by_role("button").click()
    assert shown(page)[:4] == ["q1", "q4", "q7", "q10"]


def test_a_question_opens_by_mouse_with_all_that_is_known_of_it(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    page.get_by_role("button", name="What colour is my bicycle0?").click()
    detail = page.locator("#detail-0")
    text = detail.inner_text()
    for part in ("2023/05/30 (Tue) 23:40", "red", "answer 0 of good", "answer 0 of bad", "drop-oldest: 1 message"):
        assert part in text
    runs = detail.locator(".run")
    assert [runs.nth(index).locator("h3").inner_text().split()[:1] for index in range(3)] == [
        ["semantic"],
        ["good-again"],
        ["last-k"],
    ]
    assert "1 of 1 messages in the prompt" in runs.nth(0).inner_text()
    assert "0 of 1 messages in the prompt, 1 found but cut" in runs.nth(2).inner_text()
    # What was recalled, evidence marked.
    runs.nth(0).get_by_text("In the prompt: 3 messages, 1 of them evidence").click()
    runs.nth(0).locator(".message .text").first.wait_for()  # They are written once the summary has opened.
    assert runs.nth(0).locator(".message .text").all_inner_texts() == [
        "How do I boil 0 eggs?",
        "I painted my bicycle0 red today. Any tips?",
        "Let it dry for a day.",
    ]
    assert runs.nth(0).locator(".message.evidence").inner_text().startswith("Evidence · 2023-05-21 10:00 · user")
    runs.nth(2).get_by_text("Found but kept out of the prompt: 1 message").click()
    runs.nth(2).locator(".message .text").first.wait_for()
    assert "bicycle0 red" in runs.nth(2).locator(".message.evidence").inner_text()
    # The prompt as sent, and the other judge.
    runs.nth(0).get_by_text("Prompt as sent").click()
    assert runs.nth(0).locator("pre").inner_text() == "PROMPT good What colour is my bicycle0?"
    runs.nth(0).get_by_text("1 more judge").click()
    assert LENIENT.id in runs.nth(0).inner_text()


def test_a_question_opens_and_closes_by_keyboard(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("button", name="differ").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "open":
            break
    focused = page.locator(":focus")
    assert focused.inner_text() == "What colour is my bicycle0?"
    assert focused.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert focused.get_attribute("aria-expanded") == "true"
    assert page.locator("#detail-0").is_visible()
    page.keyboard.press("Space")
    assert focused.get_attribute("aria-expanded") == "false"
    assert page.locator("#detail-0").count() == 0


def test_what_is_open_stays_open_when_the_table_changes(reader: Reader, report: Path) -> None:
    page = reader.open(report)
    page.get_by_role("button", name="What colour is my bicycle4?").click()
    choice(page, "type").select_option("multi-session")
    assert page.locator("#detail-4").is_visible()


def test_hostile_texts_are_shown_and_not_obeyed(reader: Reader, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_report(["one", "two"], file, folders=hostile_run(tmp_path))
    page = reader.open(file)
    for index in range(2):
        page.locator("#question-box button.open").nth(index).click()
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    page.get_by_role("searchbox").fill("<SCRIPT>")
    assert page.locator("#question-box td.id").count() == 2
    assert page.evaluate("typeof window.harmed") == "undefined"
    # Nothing from the data became an element: the page has its own three scripts and no picture.
    assert page.locator("script").count() == 3
    assert page.locator("img").count() == 0
    text = visible(HOSTILE)
    assert page.locator("button.open").first.text_content() == text
    assert page.locator(".message .text").first.text_content() == text
    assert text in (page.locator("#detail-0 .run").first.text_content() or "")
    assert text in (page.locator("#summary table.scores").first.text_content() or "")
    assert text[:20] in (page.locator("#chart-recall svg").first.text_content() or "")


@pytest.mark.thorough
def test_light_and_dark(reader: Reader, report: Path) -> None:
    (look,) = looks_of(["semantic"], [(False, False)])

    def colours(page: Page) -> tuple[str, str]:
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        bar = page.locator(f"#chart-types svg path[stroke*='--run-{look.colour})']").first.evaluate(
            "one => getComputedStyle(one).stroke"
        )
        return background, bar

    light, dark = reader.open(report), reader.open(report, scheme="dark")
    first, second = colours(light), colours(dark)
    assert first[0] == "rgb(255, 255, 255)"
    assert first[0] != second[0]
    assert first[1] != second[1]
    light.get_by_role("button", name="Switch to dark colours").click()
    assert colours(light) == second
    dark.get_by_role("button", name="Switch to light colours").click()
    assert colours(dark) == first


def test_a_phone_never_scrolls_the_page_sideways(reader: Reader, report: Path) -> None:
    page = reader.open(report, width=390)
    page.locator("#question-box button.open").first.click()
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    detail = page.locator(".detail").bounding_box()
    assert detail is not None
    assert detail["width"] <= 390
    assert measured(page).wider == []


def test_paper_gets_charts_and_summary_in_black_on_white(reader: Reader, report: Path) -> None:
    page = reader.open(report, width=700, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("nav", "#theme", "#filters", "#question-box", "#settings pre >> nth=0"):
        assert not page.locator(hidden).is_visible()
    for visible_part in ("#summary table.scores", "#chart-types svg", "#chart-latency svg"):
        assert page.locator(visible_part).is_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("recalled", [25, 48])
def test_500_questions_stay_under_5_megabytes_and_come_in_portions(
    reader: Reader, tmp_path: Path, recalled: int
) -> None:
    file = tmp_path / "report.html"
    written = write_report(["large"], file, folders=large_run(tmp_path, recalled=recalled))
    assert written.bytes == file.stat().st_size < 5_000_000
    page = reader.open(file)
    buttons = page.locator("#question-box button.open")
    assert buttons.count() == 100
    page.get_by_role("button", name="Show 100 more").click()
    assert buttons.count() == 200
    page.get_by_role("button", name="Show all 500").click()
    assert buttons.count() == 500
    buttons.last.click()
    detail = page.locator("#detail-499").inner_text()
    assert re.search(r"… [\d,]+ more characters", detail)
    assert f"In the prompt: {recalled} messages" in detail
    assert ("… 18 more messages" in detail) == (recalled == 48)
    assert "Messages are cut to about" in page.locator("#questions").inner_text()


@pytest.mark.parametrize("width", [390, 1400])
def test_the_board_fits_and_its_rows_link_to_their_manifests(reader: Reader, tmp_path: Path, width: int) -> None:
    folders = hostile_run(tmp_path)
    for number, run_id in enumerate(("one", "two")):
        answers = folders.results_dir / run_id / "answers.jsonl"
        answers.write_bytes(answers.read_bytes().replace(b'"recall_ms":0.0', b'"recall_ms":%d.0' % (number + 1)))
        record_messages(folders.results_dir / run_id, LongMemEvalDataset(tmp_path / "hostile.json"))
    write_board([folders.results_dir], tmp_path / "board", datasets=[str(tmp_path / "hostile.json")], folders=folders)
    page = reader.open(tmp_path / "board" / "index.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert visible(HOSTILE) in page.locator("tbody th").first.inner_text()
    links = [link.get_attribute("href") or "" for link in page.locator("tbody a").all()]
    assert links == ["manifests/results/one.json", "manifests/results/two.json"]
    assert all((tmp_path / "board" / link).exists() for link in links)
    assert page.locator("tbody td:first-child").all_inner_texts() == ["1 to 2", "1 to 2"]


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader: Reader, report: Path, scheme: Literal["light", "dark"]) -> None:
    page = reader.open(report, scheme=scheme)
    page.locator("#question-box button.open").first.click()
    page.evaluate(f"{(Path(__file__).parents[1] / 'view' / 'axe' / 'axe.min.js').read_text()};0")
    found = page.evaluate("axe.run().then(found => found.violations.map(one => [one.id, one.impact]))")
    assert [name for name, impact in found if impact in ("serious", "critical")] == []
