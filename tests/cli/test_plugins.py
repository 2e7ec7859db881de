"""`longmemeval plugins` beside packages that cannot be imported, or whose entry points cannot even be read."""

import json
import os
from pathlib import Path

import pytest

from longmemeval.plugins import GROUPS
from tests.support import ROOT, longmemeval


def install(at: Path, package: str, body: str, entry_points: str) -> None:
    (at / f"{package}.py").write_text(body)
    info = at / f"{package}-0.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def broken_packages(tmp_path: Path) -> str:
    """A folder for PYTHONPATH with packages that are broken, each in another way."""
    site = tmp_path / "site-packages"
    site.mkdir()
    everywhere = "".join(f"[{group}]\nraises = pack_raises:X\n" for group in GROUPS)
    install(site, "pack_raises", "raise RuntimeError('no licence found')", everywhere)
    install(site, "pack_leaves", "raise SystemExit('goodbye')", "[longmemeval.executors]\nleaves = pack_leaves:X\n")
    return f"{site}{os.pathsep}{ROOT}"


def test_what_is_wrong_with_plug_ins_is_told_and_breaks_no_other_command(broken_packages: str, tmp_path: Path) -> None:
    found = json.loads(longmemeval("plugins", "--json", cwd=tmp_path, PYTHONPATH=broken_packages).stdout)
    problems = {(one["group"], one["package"], one["version"]): one["problem"] for one in found if one["problem"]}
    assert {package for _, package, _ in problems} == {"pack_raises", "pack_leaves"}
    for group in GROUPS:
        assert "RuntimeError: no licence found" in problems[group, "pack_raises", "0.3"]
    assert "SystemExit: goodbye" in problems["longmemeval.executors", "pack_leaves", "0.3"]
    told = longmemeval("plugins", "--check", cwd=tmp_path, code=3, PYTHONPATH=broken_packages).stdout
    assert "raises: The executor 'raises' of the package pack_raises cannot be loaded" in told
    prepare = ("prepare", "--dataset", "sample", "--memory", "last-k", "--limit", "1")
    assert "Prepared 1 haystack in" in longmemeval(*prepare, cwd=tmp_path, PYTHONPATH=broken_packages).stdout


def test_a_package_whose_entry_points_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Libraries stumble over it too: somebody has to say which one it is."""
    install(tmp_path, "pack_garbled", "", "[longmemeval.executors]\nno equals sign\n")
    told = longmemeval("plugins", cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout
    assert "pack_garbled: Its entry_points.txt cannot be read" in told


def test_without_other_packages_everything_can_be_used(tmp_path: Path) -> None:
    assert all(
        one["problem"] == "" for one in json.loads(longmemeval("plugins", "--check", "--json", cwd=tmp_path).stdout)
    )
