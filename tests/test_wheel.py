"""Installed wheels, away from the source tree: the package itself, and plug-ins beside it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from tests.made_once import sample_demo
from tests.support import ROOT, clean_environment, json_lines

EXAMPLE = ROOT / "examples" / "plugin"


def build(source: Path, at: Path) -> Path:
    """The wheel of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(at)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = at.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of longmemeval."""
    return build(ROOT, tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder of packages: longmemeval and the example of plug-ins."""
    folder = tmp_path_factory.mktemp("wheels")
    shutil.copytree(EXAMPLE, folder / "example")
    wheels = [wheel, build(folder / "example", folder / "plug-in")]
    packages = folder / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", str(packages)]
    subprocess.run([*pip, *map(str, wheels)], check=True, capture_output=True, timeout=120)
    return packages


def run_there(packages: Path, cwd: Path, *arguments: str) -> str:
    """What a command of the installed packages prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env=clean_environment() | {"PYTHONPATH": str(packages), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def demo_with_gaps(at: Path, factory: pytest.TempPathFactory) -> None:
    """A copy of another demo that lacks one history, one run of each kind and the report; those are moved aside."""
    shutil.copytree(sample_demo(factory).folder, at, dirs_exist_ok=True)
    for missing in ("demo-report.html", "demo-hybrid", "demo-parrot"):
        shutil.move(at / "results" / missing, at / missing)
    shutil.rmtree(at / "prepared-data" / "sample" / "default" / "smp_4ea7")


@pytest.mark.thorough
def test_demo_runs_from_a_wheel_in_another_folder(
    installed: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Everything a running program reads is inside: templates, judge prompts, catalogue, sample.
    for needed in ("reading/templates/direct.txt", "benchmarks/longmemeval/judge_templates.json", "py.typed"):
        assert (installed / "longmemeval" / needed).exists()
    assert list(installed.glob("longmemeval-*.dist-info/licenses/LICENSE"))
    (tmp_path / "where.py").write_text("import longmemeval\nprint(longmemeval.__file__)")
    assert run_there(installed, tmp_path, "where").startswith(str(installed))
    # An extra is added to what is installed: there is no source tree.
    (tmp_path / "hint.py").write_text(
        "from longmemeval.core.installation import install_command\nprint(install_command('view'))"
    )
    assert run_there(installed, tmp_path, "hint").endswith("install 'longmemeval[view]'\n")
    demo_with_gaps(tmp_path, tmp_path_factory)
    assert "semantic-recall" in run_there(installed, tmp_path, "longmemeval", "demo")
    for anew in ("demo-hybrid", "demo-parrot"):
        assert len(json_lines(tmp_path / "results" / anew / "answers.jsonl")) == len(load_dataset("sample"))
    assert (tmp_path / "results" / "demo-report.html").exists()


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # It installs everything.
@pytest.mark.parametrize("runner", ["uvx", "pipx", "Dockerfile", "clone"])
def test_the_demo_runs_where_nothing_is_installed(
    runner: str, wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With packages of the index and none of this environment's; of the Dockerfile its steps, without an image.

    By uvx and in a clone without a compiler, so without hnswlib, in an empty folder; by the others where one has begun.
    """
    variables = {name: text for name, text in clean_environment().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_DEFAULT_PYTHON": sys.executable}
    variables["PIP_COMPILE"] = "0"  # Most of what is installed is never imported here; what is, is compiled once.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    place = tmp_path / "place"
    place.mkdir()
    begins = runner in ("uvx", "clone")
    if runner == "Dockerfile":
        # What pip built for this environment uv does not build again.
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(tmp_path / "built")]
        subprocess.run([*pip, "hnswlib", "--constraint", str(ROOT / "constraints.txt")], check=True)
        variables["UV_FIND_LINKS"] = str(tmp_path / "built")
    if not begins:
        demo_with_gaps(place, tmp_path_factory)

    def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, check=False)

    if runner == "Dockerfile":
        steps, command = dockerfile(tmp_path)
        assert len(steps) == 1
        made = run(["sh", "-ec", steps[0]])
        assert made.returncode == 0, made.stderr
    elif runner == "clone":
        place = copy_of_clone(tmp_path / "clone")
        variables |= {"PATH": str(without_compiler(tmp_path / "bin")), "PYTHON": sys.executable}
        command = ["bash", "scripts/demo"]
    else:
        uvx = str(Path(sys.executable).with_name("uvx"))
        begin = [uvx, "--from", str(wheel)] if runner == "uvx" else [uvx, "pipx", "run", "--spec", f"{wheel}[hnsw]"]
        command = [*begin, "longmemeval", "demo"]
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert "semantic-recall" in done.stdout
    assert (place / "results" / "demo-hybrid" / "run.json").exists()
    assert ("hnswlib is not installed" in done.stderr) is begins
    (recipe,) = {meta["parts"]["vector-graph"]["recipe"]["index"] for meta in metas(place)}
    assert recipe == ("exact" if begins else "hnsw")


def metas(place: Path) -> list[dict[str, Any]]:
    """The `meta.json` of all fixtures of a demo."""
    return [json.loads(file.read_text()) for file in (place / "prepared-data").glob("sample/default/*/meta.json")]


def copy_of_clone(at: Path) -> Path:
    """Copy what git keeps of this tree into a folder; return it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, at / name)
    return at


def without_compiler(at: Path) -> Path:
    """Make a folder of the programs that `scripts/demo` needs, for a PATH on which there is no compiler."""
    at.mkdir()
    for name in ("bash", "cat", "cksum", "dirname", "sed"):
        (at / name).symlink_to(str(shutil.which(name)))
    return at


def dockerfile(folder: Path) -> tuple[list[str], list[str]]:
    """Return the shell steps of the Dockerfile, in a folder instead of an image, and the command that it runs.

    The step for the system's packages is left out: a compiler is here. Packages may come from caches, and are compiled
    when they are imported.
    """
    copy_of_clone(folder / "source")
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    text = text.replace("/opt/longmemeval", str(folder / "opt")).replace("/source", str(folder / "source"))
    text = text.replace("python -m venv", f"{sys.executable} -m venv")
    for option in (" --no-cache-dir", " --no-cache", " --compile-bytecode"):
        assert option in text
        text = text.replace(option, "")
    said = [line.partition(" ") for line in text.splitlines()]
    steps = [rest for word, _, rest in said if word == "RUN" and not rest.startswith("apt-get")]
    lists = [json.loads(rest) for word, _, rest in said if word in ("ENTRYPOINT", "CMD")]
    return steps, [part for parts in lists for part in parts]


@pytest.mark.thorough
def test_the_example_of_plug_ins_runs_as_its_page_says(installed: Path, tmp_path: Path) -> None:
    """Every command of the README, by the names that the package registers."""
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "plugin")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", (EXAMPLE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    printed = {}
    for line in block.splitlines()[1:]:
        _, verb, *arguments = shlex.split(line)
        printed[verb] = run_there(installed, tmp_path, "longmemeval", verb, *arguments)
    listed = [line.split() for line in printed["plugins"].splitlines() if "longmemeval-example" in line]
    assert [line[1] for line in listed] == ["notebook", "pantry", "offline/pantry", "pool", "letters"]
    assert (tmp_path / "prepared-data" / "pantry" / "default" / "maple" / "notebook.json").exists()
    assert "judged by offline/pantry" in printed["evaluate"]
    assert re.search(r"stock.*latest.*never-said", printed["compare"], re.DOTALL)
    run_there(installed, tmp_path, "longmemeval", "verify", "notebook")


@pytest.mark.thorough
def test_the_tests_of_the_example_pass(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "plugin")
    done = run_there(
        installed, tmp_path / "plugin", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "tests"
    )
    assert "5 passed" in done
