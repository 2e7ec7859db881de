"""An installed wheel, away from the source tree, does all that the source tree does."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support import ROOT, clean_environment


def test_demo_runs_from_a_wheel_in_another_folder(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("longmemeval-*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        names = archive.namelist()
    # Everything a running program reads is inside: templates, judge prompts, catalogue, sample.
    for needed in (
        "reading/templates/direct.txt",
        "benchmarks/longmemeval/judge_templates.json",
        "benchmarks/locomo/plugins.toml",
        "benchmarks/convomem/catalogue.json",
        "py.typed",
    ):
        assert f"longmemeval/{needed}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    environment = clean_environment() | {"PYTHONPATH": str(installed)}
    where = subprocess.run(
        [sys.executable, "-c", "import longmemeval; print(longmemeval.__file__)"],
        cwd=elsewhere, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(installed))
    done = subprocess.run(
        [sys.executable, "-m", "longmemeval", "demo"],
        cwd=elsewhere, env=environment, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "semantic-recall" in done.stdout
    assert (elsewhere / "results" / "demo-combined" / "answers.jsonl").exists()
