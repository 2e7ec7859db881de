"""Embedders of other packages and of the user's own module are used by name like the built-in ones."""

import json
import os
from pathlib import Path

import pytest

from longmemeval.embedding.registry import is_remote, load_embedder, priced_as
from longmemeval.errors import HarnessError
from tests.cli.test_plugins import install
from tests.support import ROOT, longmemeval

LETTERS = '''
import numpy as np

class Letters:
    """Counts letters."""

    spec, fingerprint, dimension = "SPEC", "letters 1", 26

    def embed(self, texts):
        rows = np.zeros((len(texts), 26), np.float32)
        for row, text in zip(rows, texts):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    row[ord(letter) - 97] += 1
            row /= max(float(np.linalg.norm(row)), 1e-9)
        return rows
'''
PRICED = (
    LETTERS
    + """
from longmemeval.embedding.protocol import EmbedderKind

KIND = EmbedderKind(lambda model, settings: Letters(), "paid:MODEL", is_remote=True, priced_as=lambda model: model)
"""
)
PREPARE = ("prepare", "--dataset", "sample", "--memory", "semantic-recall", "--limit", "2")


def recorded(folder: Path) -> str:
    """The embedder in the recipe of the vectors."""
    meta = next((folder / "prepared-data").rglob("meta.json"))
    return str(json.loads(meta.read_text())["parts"]["vector"]["recipe"])


@pytest.mark.parametrize("spec", ["letters", "letters_embedder:Letters"])
def test_an_embedder_from_outside_prepares_and_answers(tmp_path: Path, spec: str) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    source = LETTERS.replace("SPEC", spec)
    if spec == "letters":
        install(site, "letters_embedder", source, "[longmemeval.embedders]\nletters = letters_embedder:Letters\n")
    else:
        (tmp_path / "letters_embedder.py").write_text(source)
    longmemeval(*PREPARE, "--embedder", spec, cwd=tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}")
    assert "letters 1" in recorded(tmp_path)
    command = ("run", "-d", "sample", "--limit", "2", "-m", "semantic-recall", "--model", "offline/extractive")
    longmemeval(*command, "--run-id", "r", cwd=tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}")
    assert len((tmp_path / "results/r/answers.jsonl").read_text().splitlines()) == 2
    if spec == "letters":
        listed = longmemeval("plugins", "--json", cwd=tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}").stdout
        assert {one["name"] for one in json.loads(listed) if one["group"] == "longmemeval.embedders"} == {
            *("hashing", "fastembed", "openai", "letters")
        }


def test_a_kind_of_another_package_says_what_it_costs(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    source = PRICED.replace("SPEC", "paid:text-embedding-3-small")
    install(site, "paid_embedder", source, "[longmemeval.embedders]\npaid = paid_embedder:KIND\n")
    words = ("--embedder", "paid:text-embedding-3-small", "--dry-run", "--json")
    shown = json.loads(longmemeval(*PREPARE, *words, cwd=tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}").stdout)
    assert any("embedding, USD" in name for name in json.dumps(shown).split('"'))
    told = longmemeval(
        *PREPARE, "--embedder", "paid", cwd=tmp_path, code=2, PYTHONPATH=f"{site}{os.pathsep}{ROOT}"
    ).stderr
    assert "Write it like paid:MODEL" in " ".join(told.split())


def test_what_a_record_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_a_mark.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert not is_remote("leaves_a_mark:Embedder")
    assert not (tmp_path / "imported").exists()


def test_built_in_kinds() -> None:
    assert is_remote("openai:m")
    assert not is_remote("hashing:512")
    assert not is_remote("fastembed:x")
    assert priced_as("openai:m") == "m"
    assert priced_as("hashing") is None
    assert load_embedder("hashing:64").dimension == 64
    with pytest.raises(HarnessError, match="Did you mean 'hashing'"):
        load_embedder("hasing:64")
