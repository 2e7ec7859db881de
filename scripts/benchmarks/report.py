"""How large the report of 500 questions is, how long writing it takes, and how fast it opens.

The run is made up, of the size of one on LongMemEval_S. Opening is the time until the first question of the table is
open, in the system's Chromium, the fastest of several.
"""

import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from playwright.sync_api import sync_playwright

from longmemeval.report.write import ReportOptions, write_report

ROUNDS = 5
ROOT = Path(__file__).resolve().parents[2]


def seconds_to_open(file: Path, program: str) -> float:
    """Seconds until the table is there and its first question is open."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        taken = []
        for _ in range(ROUNDS):
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(file.as_uri())
            page.locator("#question-box button.open").first.click()
            page.locator("#detail-0").wait_for()
            taken.append(time.perf_counter() - started)
            page.close()
        browser.close()
    return min(taken)


def main() -> None:
    """Measure the page as it is by default and with nothing cut."""
    names = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        sys.exit("no browser: install Chromium")
    # The made-up run is the one that the tests use.
    sys.path.insert(0, str(ROOT))
    large_run = import_module("tests.report.report_runs").large_run
    with tempfile.TemporaryDirectory() as folder:
        where = large_run(Path(folder))
        for name, options in (("default", ReportOptions()), ("--full", ReportOptions(full=True))):
            file = Path(folder) / "report.html"
            started = time.perf_counter()
            written = write_report(["large"], file, options=options, folders=where)
            taken = time.perf_counter() - started
            opened = seconds_to_open(file, program)
            size = f"{written.bytes / 1e6:.1f} MB"
            print(f"{name}: {size}, written in {taken:.1f} s, first question open after {opened:.2f} s")


main()
