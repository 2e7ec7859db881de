"""`scripts/measure_context` on a history whose figures are known."""

import subprocess
import sys
from pathlib import Path

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from tests.pipeline.helpers import folders_in
from tests.support import ROOT, clean_environment, record, write_dataset


def measured(folder: Path, budgets: str) -> list[list[str]]:
    """The cells of the table it prints."""
    folders = folders_in(folder)
    prepare(
        LongMemEvalDataset(write_dataset(folder / "d.json", record())),
        ["hybrid", "engram-lean"],
        options=PrepareOptions(jobs=1),
        folders=folders,
    )
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "scripts" / "measure_context"),
            *("--dataset", str(folder / "d.json"), "--prepared-dir", str(folders.prepared_dir)),
            *("--budget", budgets, "hybrid", "engram-lean:facts=0"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]


@pytest.mark.thorough
def test_figures_of_one_question(tmp_path: Path) -> None:
    head, _, *table = measured(tmp_path, "400,5")
    assert head[:5] == ["tokens", "memory", "used", "figure", "all (1)"]
    figures = {(row[0], row[1], row[3]): row[4:] for row in table}
    assert figures["400", "`hybrid`", "recall"] == ["100.0", "100.0"]
    assert figures["400", "`engram-lean:facts=0`", "coverage"] == ["100.0, +0.0 [+0.0, +0.0]"] * 2
    assert figures["5", "`hybrid`", "recall"] == ["0.0", "0.0"]
