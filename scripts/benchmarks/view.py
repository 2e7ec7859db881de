"""The pages of `view` over 20 runs of 2,000 questions: seconds until each opens, bytes of every answer, filters.

Run `scripts/benchmarks/view.py`; `--runs` and `--questions` make a smaller set, `--folder` takes runs that are there.
What is opened first is read, checked and recomputed from the files; after a restart what was computed of the same bytes
comes from a file, what is opened again from memory.
"""

import argparse
import gzip
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.memory.configuration import MEMORIES
from longmemeval.results.listing import list_runs
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
    started, busy = time.perf_counter(), time.process_time()
    size = work()
    busy, took = time.process_time() - busy, time.perf_counter() - started
    print(f"| {what} | {took:.2f} s | {busy:.2f} s | {size / 1000:,.0f} kB |", flush=True)


def opened(client: TestClient, path: str) -> Callable[[], int]:
    """An answer that is asked for; its bytes as they are sent."""

    def work() -> int:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return len(gzip.compress(answer.content, 6))

    return work


def in_browser(folders: Folders, query: str) -> None:
    """Print how long filters take where a browser is, by the page's own clock."""
    names = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        print("no browser: filters were not measured")
        return
    from contextlib import ExitStack

    from playwright.sync_api import sync_playwright

    from tests.view.client import TOKEN
    from tests.view.conftest import served

    with ExitStack() as stack, sync_playwright() as playwright:
        own = served(folders, stack)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{own}/questions?{query}&token={TOKEN}")
        page.wait_for_selector("html[data-ready=matrix]")
        started = time.perf_counter()
        page.reload()
        page.wait_for_selector("html[data-ready=matrix]")
        print(f"| matrix drawn in Chromium, runs opened before | {time.perf_counter() - started:.2f} s | | |")
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
            print(f"| filter `{key}`, until it is drawn, least of 7 | {took:.0f} ms | | |")
        browser.close()


def measure(folders: Folders, query: str, question: str) -> None:
    """Print what every answer takes: of a server that knows nothing, of one begun again, and asked again."""
    print("| | seconds | of a processor | bytes, compressed |\n|---|---:|---:|---:|")
    for when in ("first time ever", "first time after a restart"):
        client = TestClient(make_app(folders, token="bench"), base_url="http://127.0.0.1")
        client.get("/runs?token=bench")
        timed(f"comparison, {when}", opened(client, f"/compare?{query}"))
    for what, path in (
        ("comparison, again", f"/compare?{query}"),
        ("list of runs", "/runs"),
        ("matrix, first time", f"/questions?{query}"),
        ("matrix, again", f"/questions?{query}"),
        ("its data", f"/data/questions?{query}"),
        ("one question", f"/question?{query}&q={question}"),
        ("text in answers", f"/data/search?q=nowhere&{query}"),
        ("text in what was recalled, first time", f"/data/search?q=nowhere&in=recalled&{query}"),
        ("text in what was recalled, again", f"/data/search?q=nowhere&in=recalled&{query}"),
        ("a pattern in questions and answers", f"/data/search?q=no(w|t)here&in=pattern&{query}"),
        ("pictures, first time", f"/compare/pictures?{query}"),
        ("pictures, again", f"/compare/pictures?{query}"),
    ):
        timed(what, opened(client, path))


def main() -> None:
    """Make the set, or take the runs that are given, and open every page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="with results/ and prepared-data/: their runs instead of made ones")
    given = parser.parse_args()
    # What every command loads first is not what opening takes.
    MEMORIES.get("bm25")
    with tempfile.TemporaryDirectory() as folder:
        if given.folder:
            where = folders_in(given.folder.absolute())
            (where.cache_dir / "view.sqlite").unlink(missing_ok=True)
        else:
            where = make(Path(folder), given.runs, given.questions)
        where.prepared_dir.mkdir(exist_ok=True)
        runs = sorted(one.run for one in list_runs(where.results_dir))
        query = "&".join(f"run={one}" for one in runs)
        question = json.loads((where.results_dir / runs[0] / "run.json").read_bytes())["question_ids"][7]
        measure(where, query, question)
        in_browser(where, query)


if __name__ == "__main__":
    main()
