"""The doors' registries: built-in names, names of other packages, and what is said when one is broken."""

import sys
from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.plugins import Registry, load_object

_BUILT_IN = {"zero": "tests.test_plugins:ZERO", "wrong": "tests.test_plugins:WRONG"}
ZERO, WRONG = 0, "0"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which packages can be installed by hand: a module and a `.dist-info` of each."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(at: Path, package: str, body: str, **points: str) -> None:
    (at / f"{package}.py").write_text(body)
    info = at / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[longmemeval.test]\n{lines}")


def registry() -> Registry[int]:
    return Registry("longmemeval.test", "number", int, _BUILT_IN)


def test_names_of_other_packages_follow_the_built_in_ones(packages: Path) -> None:
    install(packages, "plug_seven", "SEVEN = 7", seven="plug_seven:SEVEN", eight="plug_seven:EIGHT")
    assert registry().names() == ["zero", "wrong", "eight", "seven"]
    assert (registry().get("zero"), registry().get("seven"), "seven" in registry()) == (0, 7, True)
    assert "plug_eight" not in sys.modules


def test_a_broken_plug_in_breaks_only_itself(packages: Path) -> None:
    install(packages, "plug_broken", "raise RuntimeError('no licence found')", broken="plug_broken:X")
    numbers = registry()
    assert numbers.get("zero") == 0
    assert "broken" in numbers.names()
    with pytest.raises(HarnessError, match=r"'broken' of the package plug_broken .* RuntimeError: no licence found"):
        numbers.get("broken")
    listed = {plugin.name: plugin for plugin in numbers.plugins()}
    assert "no licence found" in listed["broken"].problem
    assert (listed["broken"].package, listed["broken"].version, listed["zero"].problem) == ("plug_broken", "1.2", "")


def test_a_name_that_is_taken_is_refused(packages: Path) -> None:
    install(packages, "plug_one", "A = 1", same="plug_one:A", zero="plug_one:A")
    install(packages, "plug_two", "A = 2", same="plug_two:A")
    numbers = registry()
    with pytest.raises(HarnessError, match="claimed by more than one package: plug_one, plug_two"):
        numbers.get("same")
    assert numbers.get("zero") == 0
    problems = {(plugin.name, plugin.package): plugin.problem for plugin in numbers.plugins()}
    assert "longmemeval itself, plug_one" in problems["zero", "plug_one"]


def test_an_object_can_be_named_without_registration(packages: Path) -> None:
    (packages / "loose.py").write_text("class Box:\n    NINE = 9\n")
    assert registry().get("loose:Box.NINE") == 9
    with pytest.raises(HarnessError, match=r"has no 'Bocks'.*Did you mean 'Box'"):
        load_object("loose:Bocks", "number")


def test_what_is_said_of_a_name_that_is_none() -> None:
    with pytest.raises(HarnessError, match=r"Unknown number 'zer'.*Did you mean 'zero'"):
        registry().get("zer")
    with pytest.raises(HarnessError, match=r"'wrong' is a str, not a int"):
        registry().get("wrong")
    with pytest.raises(HarnessError, match=r"importing nowhere_at_all fails with ModuleNotFoundError"):
        registry().get("nowhere_at_all:X")
