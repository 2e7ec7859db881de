"""The commands on the guides' pages do what the pages say, offline, in the order in which they stand.

They run in the environment that people are told to make, which is that of `scripts/demo`.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.environments import make_environment
from tests.forking import Server, start_forked
from tests.made_once import sample_prepared
from tests.support import ROOT, clean_environment

pytestmark = pytest.mark.thorough

GUIDES = {
    "add-a-memory-system.md": "results/mine/run.json",
    "engram.md": "facts.svg",
    "typed-nodes.md": "results/gear/run.json",
}
"""Pages, and a file that is there when all their commands have run."""
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```(?:python|yaml)\n# (\S+\.(?:py|yaml))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Python or YAML that the page has the reader save; its first line is the name."""


def commands(page: str) -> list[str]:
    """The lines of all `sh` blocks of a page."""
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the environment that `scripts/demo` makes."""
    made = re.search(r"^make_environment \.venv-demo (\S+)$", (ROOT / "scripts" / "demo").read_text(), re.MULTILINE)
    assert made
    return make_environment(tmp_path_factory.mktemp("demo") / "venv", made[1])


@pytest.fixture(scope="module")
def server(python: Path) -> Server:
    """A process of that environment that commands are forked from."""
    return Server(python)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, server: Server) -> tuple[Path, dict[str, str]]:
    """The folder where the commands of the first comparison ran, and what they printed."""
    folder = tmp_path_factory.mktemp("compared")
    return folder, run_lines(server, "first-comparison.md", folder, clean_environment(COLUMNS="103"))


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_a_guide_run_as_they_stand(
    page: str, tmp_path: Path, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On the sample as it is prepared for the built-in memories; what a page adds is prepared here."""
    shutil.copytree(sample_prepared(tmp_path_factory) / "prepared-data", tmp_path / "prepared-data")
    for name, content in FILE.findall((ROOT / "docs" / page).read_text()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert len(run_lines(server, page, tmp_path, clean_environment())) >= 3
    made = tmp_path / GUIDES[page]
    assert made.stat().st_size > (100_000 if made.suffix == ".html" else 1000)


def test_the_memory_of_the_readme_is_measured_by_its_commands(tmp_path: Path, server: Server) -> None:
    section = re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    (own,) = [text for text in section if text.startswith("Measure your own memory")]
    (code,) = re.findall(r"^```python\n(.*?)^```$", own, re.MULTILINE | re.DOTALL)
    (tmp_path / "mymem.py").write_text(code)
    lines = [line.partition("#")[0].strip() for line in own.splitlines() if line.startswith("    longmemeval ")]
    printed = run_each(server, lines, tmp_path, clean_environment())
    assert printed["longmemeval compare bm25 mine"].startswith("Recent (")


def test_the_first_comparison_shows_what_its_commands_print(compared: tuple[Path, dict[str, str]]) -> None:
    folder, printed = compared
    assert (folder / "report.html").stat().st_size > 100_000
    lines = iter(line.rstrip() for line in printed["longmemeval compare everything found newest evidence"].splitlines())
    (block,) = blocks("first-comparison.md", "text")
    shown = [line for line in block.splitlines() if line]
    assert [line for line in shown if line not in lines] == [], "write the page's block again"


def test_a_guide_fails_where_its_environment_lacks_something(
    compared: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, _ = compared
    (report,) = [line for line in commands("first-comparison.md") if " report " in line]
    without = make_environment(tmp_path / "venv", "")
    command = [str(without), "-m", *shlex.split(report)]
    done = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert f"-e '{ROOT}[report]'" in done.stderr


def blocks(page: str, language: str) -> list[str]:
    """The blocks of one language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


def run_lines(server: Server, page: str, at: Path, environment: dict[str, str]) -> dict[str, str]:
    """What the commands on a page print in the environment of a server, by their lines."""
    return run_each(server, commands(page), at, environment)


def run_each(server: Server, lines: list[str], at: Path, environment: dict[str, str]) -> dict[str, str]:
    """What commands print, by their lines; each must succeed."""
    printed: dict[str, str] = {}
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "longmemeval"
        process = start_forked(arguments, at, environment, of=server, quickly=True)
        printed[line], told = process.communicate()
        assert process.returncode == 0, f"{line}\n{told}"
    return printed


def test_the_benchmark_of_its_guide_runs_from_outside(tmp_path: Path, server: Server) -> None:
    page = "add-a-benchmark.md"
    (data,), (code,), (table,) = blocks(page, "json"), blocks(page, "python"), blocks(page, "toml")
    assert len(code.splitlines()) < 120
    (tmp_path / "diary.json").write_text(data)
    site = tmp_path / "site-packages"
    info = site / "diary_benchmark-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "diary_benchmark.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: diary-benchmark\nVersion: 1.0\n")
    points = tomllib.loads(table)["project"]["entry-points"]["longmemeval.benchmarks"]
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[longmemeval.benchmarks]\n{lines}")
    environment = clean_environment() | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    printed = run_lines(server, page, tmp_path, environment)
    assert "diary-benchmark" in printed["longmemeval plugins"]
    stats = printed["longmemeval datasets stats diary.json"]
    assert re.search(r"unknown\s+│?\s*2\s+│?\s*2", stats), stats
    ranked = printed["longmemeval retrieval --dataset diary.json --memory bm25"]
    assert "evidence sessions" in ranked
    scores = printed["longmemeval evaluate diary-bm25"]
    assert re.search(r"fact.*change.*unknown", scores, re.DOTALL)


def test_inside_the_tree_a_benchmark_is_its_folder(tmp_path: Path, python: Path) -> None:
    """Nothing but the folder is added to a copy of the package, and its data is known."""
    page = "add-a-benchmark.md"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "longmemeval", tmp_path / "longmemeval", ignore=unwanted)
    folder = tmp_path / "longmemeval" / "benchmarks" / "diary"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "benchmark.py").write_text(blocks(page, "python")[0])
    (folder / "plugins.toml").write_text(
        '["longmemeval.benchmarks"]\ndiary = "longmemeval.benchmarks.diary.benchmark:DIARY"\n'
    )
    (tmp_path / "diary.json").write_text(blocks(page, "json")[0])
    environment = clean_environment() | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [python, "-m", "longmemeval", "datasets", "stats", "diary.json", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["by_type"]["fact"] == {"total": 6, "abstention": 0}
