"""What is prepared for a module is prepared once, however many workers there are."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PREPARES = """
import os
import pytest

@pytest.fixture(scope="module")
def prepared():
    open(f"prepared-{os.getpid()}", "w").close()

@pytest.mark.parametrize("number", range(6))
def test_of_what_is_prepared(prepared, number):
    pass
"""

GROUPED = """
import os
import pytest

pytestmark = pytest.mark.xdist_group("databases")

@pytest.mark.parametrize("number", range(6))
def test_of_the_group(number):
    open(f"grouped-{os.getpid()}", "w").close()
"""

ALONE = """
import os
import pytest

@pytest.mark.parametrize("number", range(20))
def test_alone(number):
    open(f"ran-{number}-{os.getpid()}", "w").close()
"""


@pytest.mark.thorough
def test_a_module_is_prepared_once_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "test_prepares.py").write_text(PREPARES)
    (tmp_path / "test_alone.py").write_text(ALONE)
    for name in ("test_group_begins.py", "test_group_goes_on.py"):
        (tmp_path / name).write_text(GROUPED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.schedule", "-n", "2", "--rootdir", tmp_path, "-q"],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "38 passed" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.glob("prepared-*"))) == 1
    assert len(list(tmp_path.glob("grouped-*"))) == 1
    assert len(list(tmp_path.glob("ran-*"))) == 20
