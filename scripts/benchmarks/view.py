"""The pages of `view` over 20 runs of 2,000 questions: seconds until each opens, bytes of every answer, filters.

Run `scripts/benchmarks/view.py`; `--runs` and `--questions` make a smaller set. What is opened first is read, checked
and recomputed from the files; what is opened again comes from memory.
"""

import argparse
import gzip
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.settings import Folders
from longmemeval.view.app import make_app
from tests.pipeline.helpers import colour_record, folders_in
from tests.report.report_runs import full_run, memory
from tests.support import write_dataset

TYPES = ("single-session-user", "multi-session", "temporal-reasoning", "knowledge-update", "single-session-preference")


def make(folder: Path, runs: int, questions: int) -> Folders:
    """Runs over made questions; which are right is drawn with a seed."""
    chance = random.Random(0)
    records = [
        colour_record(
            number,
            question_id=f"q{number:05d}",
            question=f"What did I say on day {number} of the {chance.choice(['red', 'green', 'blue'])} thing?",
            question_type=chance.choice(TYPES),
        )
        for number in range(questions)
    ]
    dataset, where = LongMemEvalDataset(write_dataset(folder / "made.json", *records)), folders_in(folder)
    ids = [one.question_id for one in dataset.questions()]
    hard = {one: chance.random() for one in ids}
    for number in range(runs):
        skill = 0.4 + 0.03 * number
        credits = {one: chance.random() * 0.4 + hard[one] * 0.6 < skill for one in ids}
        full_run(dataset, where, f"run-{number:02d}", credits, tokens=500 + 90 * number, settings=memory(f"m-{number}"))
    return where


def timed(what: str, work: Callable[[], int]) -> None:
    """Print how long one answer takes, and its bytes on the wire."""
    started = time.perf_counter()
    size = work()
    print(f"| {what} | {time.perf_counter() - started:.2f} s | {size / 1000:,.0f} kB |", flush=True)


def opened(client: TestClient, path: str) -> Callable[[], int]:
    """An answer that is asked for; its bytes as they are sent."""

    def work() -> int:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return len(gzip.compress(answer.content, 6))

    return work


def in_browser(where: Folders, query: str) -> None:
    """Print how long filters take where a browser is, by the page's own clock."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("no browser: filters were not measured")
        return
    from contextlib import ExitStack

    from playwright.sync_api import sync_playwright

    from tests.view.client import TOKEN
    from tests.view.conftest import served

    with ExitStack() as stack, sync_playwright() as playwright:
        own = served(where, stack)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{own}/questions?{query}&token={TOKEN}")
        page.wait_for_selector("html[data-ready=matrix]")
        started = time.perf_counter()
        page.reload()
        page.wait_for_selector("html[data-ready=matrix]")
        print(f"| matrix drawn in Chromium, runs opened before | {time.perf_counter() - started:.2f} s | |")
        for key in "dlwagf":
            took = page.evaluate(
                """async (key) => { const press = (key) => new Promise((done) => { const from = performance.now();
                document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
                requestAnimationFrame(() => setTimeout(() => done(performance.now() - from))); });
                const taken = [];
                for (let time = 0; time < 7; time++) { await press('0'); taken.push(await press(key)); }
                return Math.min(...taken); }""",
                key,
            )
            print(f"| filter `{key}`, until it is drawn, least of 7 | {took:.0f} ms | |")
        browser.close()


def main() -> None:
    """Make the set and open every page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = make(Path(folder), given.runs, given.questions)
        query = "&".join(f"run=run-{number:02d}" for number in range(given.runs))
        client = TestClient(make_app(where, token="bench"), base_url="http://127.0.0.1")
        client.get("/runs?token=bench")
        print("| | seconds | bytes, compressed |\n|---|---:|---:|")
        for what, path in (
            ("list of runs", "/runs"),
            ("matrix, first time", f"/questions?{query}"),
            ("matrix, again", f"/questions?{query}"),
            ("its data", f"/data/questions?{query}"),
            ("text in answers", f"/data/search?q=nowhere&{query}"),
            ("comparison, first time", f"/compare?{query}"),
            ("comparison, again", f"/compare?{query}"),
            ("pictures, first time", f"/compare/pictures?{query}"),
            ("pictures, again", f"/compare/pictures?{query}"),
        ):
            timed(what, opened(client, path))
        in_browser(where, query)


if __name__ == "__main__":
    main()
