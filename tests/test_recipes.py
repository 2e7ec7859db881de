"""The recipes for reading a fixture on the page of files run as they stand, on the demo's fixtures."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_once import sample_demo
from tests.support import ROOT, clean_environment

FIXTURE = "prepared-data/sample/default/smp_4ea7"


def recipes() -> list[str]:
    """The lines of the section's blocks, in order, without those that name the fixture."""
    section = (ROOT / "docs" / "files.md").read_text().partition("### Reading a fixture with other tools")[2]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section.partition("\n### ")[0], re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines.count(f"F={FIXTURE}") == len(blocks)
    return [line for line in lines if not line.startswith("F=")]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each recipe prints or writes; those with jq only where it is installed, those with Python everywhere."""
    at, programs = tmp_path_factory.mktemp("recipes"), tmp_path_factory.mktemp("programs")
    (at / "prepared-data").symlink_to(sample_demo(tmp_path_factory).folder / "prepared-data")
    for name, options in (("python", ""), ("longmemeval", "-m longmemeval")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n')
        (programs / name).chmod(0o755)
    environment = clean_environment()
    environment |= {"PATH": f"{programs}:{environment['PATH']}", "LONGMEMEVAL_DATA_DIR": str(ROOT / "data")}
    found: dict[str, str] = {}
    for line in recipes():
        if " python " in f" {line}" or shutil.which("jq"):
            script = f"set -eu -o pipefail\nF={FIXTURE}\n{line}\n"
            done = subprocess.run(["bash", "-c", script], cwd=at, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            found[line] = done.stdout or (at / line.rpartition("> ")[2]).read_text()
    return found


def documents(at: Path) -> tuple[dict[str, str], list[str], list[str]]:
    """The hashes of parts, and the ids and contents of messages, that the fixture holds."""
    messages = json.loads((at / "db.json").read_text())["messages"]
    parts = json.loads((at / "meta.json").read_text())["parts"]
    hashes = {name: part["sha256"] for name, part in parts.items()}
    return hashes, [one["id"] for one in messages], [one["content"] for one in messages]


def test_every_recipe_prints_what_the_fixture_holds(
    printed: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    hashes, ids, contents = documents(sample_demo(tmp_path_factory).folder / FIXTURE)
    assert sum(" python " in f" {line}" for line in printed) == 4
    for line, text in printed.items():
        lines = text.splitlines()
        if "meta.json" in line:
            assert dict(one.split() for one in lines) == hashes
        elif "test(" in line:
            assert set(lines) == {id for id, text in zip(ids, contents, strict=True) if "cello" in text.lower()}
            assert lines
        elif "db.json" in line:
            assert all(one.split("\n")[0].replace("\t", "\\t") in text.replace("\t", "\\t") for one in contents)
        elif "--vectors" in line:
            named = [one.replace('"', "").replace("vector,", "").replace(",", " ").split() for one in lines]
            assert {one[0] for one in named if ":" in one[0]} >= {ids[0], ids[-1]}
            assert {len(one) for one in named if one[0] in ids} == {1 + 512}
        elif "jq" in line:
            assert json.loads(text)["dimension"] == 512
        else:
            assert text.startswith("[[")
