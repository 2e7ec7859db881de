"""`longmemeval memory install`: products in environments of their own, by uv and by pip, whole or completed."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.products import install as installing
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.install import InstallError, install
from longmemeval.memory.products.installed import Place, place_of
from longmemeval.memory.products.known import ADAPTERS, shipped_adapters
from longmemeval.memory.products.pip_settings import pip_settings, uv_arguments
from tests.memory.products.made_up import adapter_package, product_wheel
from tests.support import json_lines
from tests.support import longmemeval as command


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """The variables under which a made-up product and its adapter are found, and nothing else."""
    product_wheel(tmp_path / "wheels")
    site = adapter_package(tmp_path / "site")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PYTHONPATH": str(site)}


def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Place:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return place_of(Adapter.read(tmp_path / "site" / "boxes_adapter", "boxes"), tmp_path / "there")


@pytest.mark.thorough
@pytest.mark.parametrize("program", ["uv", "pip"])
def test_an_interrupted_install_is_completed(
    program: str, tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "pip":
        monkeypatch.setattr(installing, "_uv", lambda: None)
    else:
        assert installing._uv()
    at = place(tmp_path, monkeypatch, offline)
    assert install(at).packages["boxes"] == "1.0"
    (site,) = at.folder.glob("lib/python*/site-packages")
    (at.folder / "installed.json").unlink()  # Killed before the end: everything is there but the record.
    assert place_of(at.adapter, tmp_path / "there").installed is None
    install(at)
    (at.folder / "installed.json").unlink()
    shutil.rmtree(site / "boxes-1.0.dist-info")  # Killed while packages were written.
    (site / "boxes.py").unlink()
    assert install(at).packages["boxes"] == "1.0"
    assert (site / "boxes.py").exists()
    assert install(at).packages["boxes"] == "1.0"  # Nothing is left to do.
    at.python.unlink()  # Killed while the environment was made.
    assert place_of(at.adapter, tmp_path / "there").installed is None
    assert install(at).packages["boxes"] == "1.0"
    assert place_of(at.adapter, tmp_path / "there").required().installed


@pytest.mark.variants
@pytest.mark.parametrize("program", ["uv", "pip"])
def test_what_the_installer_says_stands_in_one_paragraph(
    program: str, tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "pip":
        monkeypatch.setattr(installing, "_uv", lambda: None)
    (tmp_path / "wheels" / "boxes-1.0-py3-none-any.whl").unlink()
    at = place(tmp_path, monkeypatch, offline)
    with pytest.raises(
        InstallError, match=rf"'boxes' could not be installed. {program} said last: .*boxes==1.0"
    ) as told:
        install(at)
    assert "\n" not in str(told.value)
    assert str(told.value).endswith("rerun `longmemeval memory install boxes`; finished steps are kept.")
    assert told.value.exit_code == 1
    assert at.installed is None


def test_an_interpreter_that_is_not_there(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HarnessError, match=r"Python interpreter 'python9\.9' was not found"):
        install(place(tmp_path, monkeypatch, offline), "python9.9")


@pytest.mark.slow
def test_uv_is_told_how_pip_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nfind-links = /not/this\n"
        "[install]\nextra-index-url = file:///a/simple\n    file:///b/simple\n"
    )
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    monkeypatch.setenv("PIP_NO_INDEX", "yes")
    arguments = uv_arguments(pip_settings())
    assert arguments == [
        *("--index-url", "https://one.example/simple"),
        *("--extra-index-url", "file:///a/simple", "--extra-index-url", "file:///b/simple"),
        *("--find-links", "/wheels", "--find-links", "/more", "--no-index"),
        *("--index-strategy", "unsafe-best-match"),
    ]


def test_a_product_from_install_to_scores(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an adapter of another package; a change of versions is noticed."""
    monkeypatch.setenv("PIP_NO_INDEX", offline["PIP_NO_INDEX"])
    monkeypatch.setenv("PIP_FIND_LINKS", offline["PIP_FIND_LINKS"])
    longmemeval = partial(command, cwd=tmp_path, PYTHONPATH=offline["PYTHONPATH"])
    words = ("--dataset", "sample", "--memory", "boxes", "--limit", "3")
    refused = longmemeval("prepare", *words, code=2)
    assert "The memory 'boxes' is not installed" in refused.stderr
    assert "Run: longmemeval memory install boxes." in refused.stderr
    listed = longmemeval("memory", "install").stdout
    assert [line.split()[-1] for line in listed.splitlines() if line.startswith(" boxes")] == ["no"]
    told = longmemeval("memory", "install", "boxes").stdout
    assert "Installing boxes==1.0 into" in told
    assert "about 20 MB, within 1 minute" in told
    again = longmemeval("memory", "install", "boxes").stdout
    assert "boxes is already installed: " in again
    checked = longmemeval("memory", "check", "boxes").stdout
    assert "Boxed, python" in checked
    assert "boxes 1.0" in checked
    longmemeval("prepare", *words)
    longmemeval("run", *words, "--model", "offline/extractive", "--run-id", "r")
    assert {one["status"] for one in json_lines(tmp_path / "results" / "r" / "answers.jsonl")} == {"ok"}
    source = json.loads((tmp_path / "results" / "r" / "run.json").read_text())["settings"]["memory"]["source"]
    assert (source["requirements"], source["package"]) == ("boxes==1.0", "boxes-adapter")
    (meta, *_) = (tmp_path / "prepared-data" / "sample" / "default").glob("*/meta.json")
    parts = json.loads(meta.read_text())["parts"]
    (recipe,) = (part["recipe"] for name, part in parts.items() if name.startswith("boxes-"))
    assert (recipe["service"], recipe["requirements"]) == ("boxes", "boxes==1.0")
    assert recipe["source_sha256"] == source["source_sha256"]
    assert str(tmp_path) not in json.dumps(recipe)
    kept = meta.parent.glob("boxes-*/state/saved/memory/told")
    assert [file.read_text() for file in kept] == ["off"]
    adapter_package(tmp_path / "site", "2.0")
    refused = longmemeval("run", *words, "--model", "offline/extractive", code=2)
    assert "has other versions than this longmemeval needs" in refused.stderr


def test_adapters_of_this_package_are_names_and_no_presets() -> None:
    for name in shipped_adapters():
        assert name in MEMORIES.names()
        assert name not in MEMORIES.built_in
        adapter = ADAPTERS.get(name)
        assert all("==" in one for one in adapter.description.requirements)
        assert adapter.module.is_file()
        assert MEMORIES.get(name).summary == adapter.description.summary
    with pytest.raises(HarnessError, match=r"Unknown memory configuration 'chorma'. Did you mean 'chroma'"):
        MEMORIES.get("chorma")


def test_a_description_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "adapter.toml").write_text("summary = 'x'\nclas = 'Y'\n")
    with pytest.raises(HarnessError, match=r"description of a memory adapter cannot be read: .*`clas`"):
        Adapter.read(tmp_path)


def test_the_process_sees_no_packages_of_ours(tmp_path: Path) -> None:
    assert "-I" in place_of(ADAPTERS.get("chroma"), tmp_path).command
    assert place_of(ADAPTERS.get("chroma"), tmp_path).environment["ANONYMIZED_TELEMETRY"] == "False"
    assert sys.executable not in place_of(ADAPTERS.get("chroma"), tmp_path).command
