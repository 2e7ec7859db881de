"""`scripts/measure_context` on a history whose figures are known."""

import subprocess
import sys
from pathlib import Path

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.pipeline.fixtures.prepare import PrepareOptions, prepare
from tests.pipeline.helpers import folders_in
from tests.support import ROOT, clean_environment, record, write_dataset


def measured(folder: Path, budget: int) -> list[str]:
    where = folders_in(folder)
    prepare(
        LongMemEvalDataset(write_dataset(folder / "d.json", record())),
        ["hybrid", "engram-lean"],
        options=PrepareOptions(jobs=1),
        where=where,
    )
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "scripts" / "measure_context"),
            *("--dataset", str(folder / "d.json"), "--prepared-dir", str(where.prepared_dir)),
            *("--budget", str(budget), "hybrid", "engram-lean"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    return done.stdout.splitlines()


def test_figures_of_one_question(tmp_path: Path) -> None:
    lines = measured(tmp_path, 400)
    assert lines[1].startswith("  recall   100.0")
    assert lines[2].startswith("  coverage 100.0")
    assert "against hybrid: +0.0 [+0.0, +0.0]" in lines[4]
    (tmp_path / "small").mkdir()
    assert measured(tmp_path / "small", 5)[1].startswith("  recall   0.0")
