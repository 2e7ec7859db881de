"""`action.yml`, run step by step as a runner of GitHub does, and `compare --format github`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.cli.conftest import Command
from tests.made_once import sample_demo
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, folders_in
from tests.support import ROOT, clean_environment, longmemeval

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


class Job(NamedTuple):
    code: int
    log: str
    summary: str


def run_action(folder: Path, *, installed: bool = True, **given: str) -> Job:
    """Run the steps: inputs filled in, scripts by `bash -e -o pipefail` in the folder of the step, until one fails."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    command = folder / "longmemeval.sh"
    command.write_text(f'#!/bin/bash\nexec "{sys.executable}" -m longmemeval "$@"\n')
    command.chmod(0o755)
    if installed:
        shutil.copy(command, tools / "longmemeval")
    else:  # What the step calls to install says how it was called.
        installs = tools / "python"
        installs.write_text(f'#!/bin/bash\necho "installed: $*"\ncp "{command}" "{tools}/longmemeval"\n')
        installs.chmod(0o755)
    summary = folder / "summary.md"
    summary.write_text("before\n")
    values = {name: one.get("default") for name, one in ACTION["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in given.items()
    }

    def filled(text: str) -> str:
        return EXPRESSION.sub(lambda match: values[match[1]], text)

    runner = clean_environment(GITHUB_STEP_SUMMARY=str(summary), GITHUB_ACTION_PATH=str(ROOT))
    runner["PATH"] = os.pathsep.join([str(tools), "/usr/bin", "/bin"])
    log, code = "", 0
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        script = folder / "step.sh"
        script.write_text(filled(step["run"]))
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=folder / filled(step.get("working-directory", ".")),
            env=runner | {name: filled(value) for name, value in step.get("env", {}).items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        log, code = log + done.stdout, done.returncode
        if code:
            break
    return Job(code, log, summary.read_text())


@pytest.mark.thorough
@pytest.mark.slow
def test_the_gate_is_red_for_a_regression_and_green_for_noise(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path / "the work"
    shutil.copytree(sample_demo(tmp_path_factory).folder, work)
    common = ("--dataset", "sample", "--model", "offline/extractive")
    longmemeval("run", *common, "--memory", "none", "--run-id", "planted", cwd=work)
    longmemeval("evaluate", "planted", "--judge", "offline/lexical", cwd=work)
    longmemeval("compare", "demo-oracle", "--save-baseline", "best.json", cwd=work)
    longmemeval("compare", "demo-bm25", "--save-baseline", "usual.json", cwd=work)

    red = run_action(tmp_path, run="planted", against="best.json", working_directory="the work")
    assert red.code == 4
    assert "::error title=Worse than the baseline::Run 'planted' is " in red.log
    assert red.summary.startswith("before\n**Worse than the baseline.** planted vs. demo-oracle: -")
    assert "| memory | model | accuracy |" in red.summary

    green = run_action(tmp_path, run="demo-hybrid", against="usual.json", working_directory="the work")
    assert green.code == 0, green.log
    assert "::notice title=Not worse than the baseline::demo-hybrid vs. demo-bm25: +" in green.log
    assert "::error" not in green.log
    assert green.summary.startswith("before\n**Not worse than the baseline.**")

    both = run_action(tmp_path, run="demo-hybrid\nplanted", against="usual.json", working_directory="the work")
    assert both.code == 4
    assert ("::notice" in both.log, both.log.count("::error")) == (True, 1)
    allowed = run_action(tmp_path, run="planted", against="usual.json", margin="1", working_directory="the work")
    assert allowed.code == 0


def test_inputs_are_no_commands_and_a_job_without_the_command_installs_it(tmp_path: Path) -> None:
    hostile = 'x"; touch stolen; $(touch stolen)'
    job = run_action(tmp_path, installed=False, run=hostile, against=hostile, judge=hostile)
    assert job.code == 2
    assert f"installed: -m pip install {ROOT}\n" in job.log
    assert not (tmp_path / "stolen").exists()
    assert job.summary == "before\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with runs over 100 questions: good 80 and bad 50 right, and one whose memory's name is hostile."""
    dataset, folders = colours(tmp_path / "d.json", 100), folders_in(tmp_path)
    graded_run(dataset, folders, "good", labels(80, 20))
    graded_run(dataset, folders, "bad", labels(50, 50))
    name = "a|b\n::error::c\x1b"
    graded_run(dataset, folders, "odd", labels(80, 20), settings={"memory": {"name": name, "parameters": {}}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("workspace")
def test_elsewhere_the_summary_is_printed(command: Command) -> None:
    done = command("compare good bad odd --against good --format github")
    assert done.code == 4
    assert done.stdout.count("**Not worse than the baseline.** ") == 2
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert [line.split(" ")[0] for line in commands[:3]] == ["::notice", "::error", "::notice"]
    assert "95%25 CI" in commands[1]
    assert {line.split(" ")[0] for line in commands[3:]} <= {"::warning"}
    assert "\x1b" not in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("workspace")
def test_without_a_baseline_the_notice_is_the_verdict(command: Command) -> None:
    done = command("compare good bad --format github")
    assert done.code == 0
    assert "\n::notice title=Verdict::bad (50.0%25) is significantly worse than good" in done.stdout


@pytest.mark.parametrize("line", ["--json", "--across", "--tables", "--questions"])
@pytest.mark.usefixtures("workspace")
def test_the_summary_takes_no_other_form(command: Command, line: str) -> None:
    done = command(f"compare good bad --format github {line}")
    assert done.code == 2
    assert "--format takes no --across" in done.stderr
