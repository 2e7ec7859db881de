"""`longmemeval view` itself: what it is told on the command line is what its pages show."""

import signal
import time
from pathlib import Path

import httpx

from tests.forking import Forked
from tests.pipeline.helpers import start
from tests.report.report_runs import three_runs


def address_of(serving: Forked) -> str:
    """Wait for the line that a server begins with."""
    deadline = time.monotonic() + 60
    while "token=" not in serving.printed():
        assert serving.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return serving.printed().split()[0]


def test_the_judge_that_is_named_is_the_one_whose_figures_are_shown(tmp_path: Path) -> None:
    """`good` is right on 11 of 12 by the one judge, on 10 by the other."""
    three_runs(tmp_path)
    for judge, shown, other in (("lenient", "83.3%", "91.7%"), ("strict", "91.7%", "83.3%")):
        serving = start("view", "good", "--judge", judge, "--no-open", cwd=tmp_path)
        try:
            with httpx.Client(follow_redirects=True) as client:
                page = client.get(address_of(serving))
                assert (page.status_code, page.url.path) == (200, "/runs" if not page.url.query else "/compare")
                compared = client.get(str(page.url.join("/compare")))
                for text in (page.text, compared.text):
                    assert f"judge test/{judge}" in text
                    assert (shown in text, other in text) == (True, False)
        finally:
            serving.send_signal(signal.SIGINT)
            serving.communicate(60)
