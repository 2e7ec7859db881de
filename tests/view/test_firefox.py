"""The pages in Firefox: they load under their policy, draw, filter and follow keys. Without Firefox: not run."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.firefox import firefox
from tests.report.report_runs import three_runs
from tests.view.client import TOKEN
from tests.view.conftest import served

THREE = "run=good&run=good-again&run=bad&judge=strict"


@pytest.mark.slow
def test_pages_work_in_firefox(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    with ExitStack() as stack:
        own = served(folders, stack)
        browser = stack.enter_context(firefox(tmp_path / "profile"))
        browser.open(f"{own}/compare?{THREE}&token={TOKEN}")
        assert "is worse than good" in browser.text("#verdict")
        browser.wait_for("document.querySelectorAll('#pictures svg').length > 1")
        assert browser.run("return getComputedStyle(document.querySelector('.run-1')).color") == "rgb(31, 95, 174)"
        browser.open(f"{own}/questions?{THREE}&show=lost")
        browser.wait_for("document.documentElement.dataset.ready === 'matrix'")
        assert browser.run("return document.querySelectorAll('.grid tbody a').length") == 11
        browser.press("a")
        browser.wait_for("document.querySelectorAll('.grid tbody a').length === 1")
        assert browser.run("return location.search.includes('show=wrong')")
        browser.press("o")
        browser.wait_for("location.pathname === '/question' && document.querySelector('h1')")
        assert "What colour" in browser.text("h1")
        for path in ("/runs", "/labels", "/explore", "/live"):
            browser.open(f"{own}{path}?run=good")
            assert browser.text("h1").strip()
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), path
