"""The commands on the guides' pages do what the pages say, offline, in the order in which they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, clean_environment

GUIDES = ("first-comparison.md",)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The lines of all `sh` blocks of a page."""
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_a_guide_run_as_they_stand(page: str, tmp_path: Path) -> None:
    lines = commands(page)
    assert len(lines) >= 3
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "longmemeval"
        done = subprocess.run(
            [sys.executable, "-m", "longmemeval", *arguments],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert (tmp_path / "report.html").stat().st_size > 100_000
