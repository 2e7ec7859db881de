"""Rerankers on the command line: a model that is not here, an error before anything is written."""

import shutil
from pathlib import Path

import pytest

from tests.pipeline.helpers import prepared_colours
from tests.support import longmemeval, tree

NAMED = "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranked")
    prepared_colours(folder, 16, "rag")
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared, tmp_path / "work")


@pytest.mark.parametrize("line", ["run --model offline/extractive", "retrieval"])
def test_a_reranker_that_is_not_here_is_told_before_anything_is_written(folder: Path, line: str) -> None:
    pytest.importorskip("fastembed")
    before = tree(folder)
    done = longmemeval(*line.split(), "-d", "colours.json", "-m", "rag-rerank", cwd=folder, code=2)
    said, error = done.stderr.splitlines()
    assert said == f"Downloading the model {NAMED.partition(':')[2]} (0.08 GB), once"
    assert error.startswith(f"Error: The model '{NAMED.partition(':')[2]}' is not on this machine and cannot be ")
    assert error.endswith("Name a folder with the model: --set reranker=fastembed:FOLDER.")
    assert (done.stdout, tree(folder)) == ("", before)


def test_what_lists_presets_downloads_nothing(folder: Path) -> None:
    pytest.importorskip("fastembed")
    done = longmemeval("inspect", "q1", "-d", "colours.json", cwd=folder)
    assert done.stderr == ""
    (row,) = (line for line in done.stdout.splitlines() if line.strip().startswith("rag-rerank"))
    assert "not on this machine" in " ".join(row.split())
    planned = ("run", "-d", "colours.json", "-m", "rag-rerank", "--model", "offline/extractive", "--dry-run")
    assert "not reranked" in longmemeval(*planned, cwd=folder).stdout
