"""Importing defines things and does nothing else: no file is read, no folder listed, no large block taken."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

import longmemeval
from tests.support import ROOT

pytestmark = pytest.mark.xdist_group("imports")

# Every module is imported once, for all that is asked of it. Watched: files opened by a statement at the top of one of
# our modules, not by the import of another module. Sources are left out: pydantic reads the docstrings of a class's
# fields from them.
WATCHED = """
import importlib, json, os, pathlib, sys, types
import pydantic
pydantic.create_model("First")  # Pydantic looks for its own plug-ins where its first model is made: here, not in ours.
package = pathlib.Path(sys.argv[1], "longmemeval")
found = set()

def watch(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir") or str(arguments[0]).endswith(".py"):
        return
    frame = sys._getframe(1)
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(package)):
            found.add(f"{frame.f_code.co_filename}:{frame.f_lineno} {event} {arguments[0]}")
        frame = frame.f_back

sys.addaudithook(watch)
for path in sorted(package.rglob("*.py")):
    if path.name != "__main__.py":
        importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
import longmemeval
hidden = [name for name in longmemeval.__all__ if isinstance(getattr(longmemeval, name), types.ModuleType)]
print(json.dumps({"touched": sorted(found), "hidden": hidden}))
"""

MEASURED = """
import tracemalloc, numpy
import longmemeval.ranking.history
tracemalloc.start()
import longmemeval.benchmarks.longmemeval.official.bm25
print(tracemalloc.get_traced_memory()[1])
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    return done.stdout.strip()


@cache
def imported() -> dict[str, Any]:
    """What importing all modules did."""
    seen: dict[str, Any] = json.loads(run(WATCHED))
    return seen


def test_no_module_reads_files_or_folders_when_it_is_imported() -> None:
    assert imported()["touched"] == []


def test_no_package_hides_what_the_root_exports() -> None:
    """Importing a package sets its name on the root: a function of that name would be gone."""
    assert {path.name for path in (ROOT / "longmemeval").iterdir()} & set(longmemeval.__all__) == set()
    assert imported()["hidden"] == []


def test_importing_the_official_bm25_takes_no_memory_but_its_code() -> None:
    assert int(run(MEASURED)) < 2_000_000
