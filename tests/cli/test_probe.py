"""`longmemeval probe`: the result first, controls beside it, the same lives again by the printed command."""

from pathlib import Path

import pytest

from longmemeval.core.text.figures import UNKNOWN
from tests.cli.conftest import Command


@pytest.mark.slow
def test_the_command_says_the_result_first(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "probe --memory bm25 --seed 5 --lives 1 --sessions 10"
    done = command(f"{line} --output probes.svg")
    assert done.code == 0
    assert done.stdout.splitlines()[0].startswith("bm25 passes ")
    assert "oracle (upper bound)" in done.stdout
    assert "none (lower bound)" in done.stdout
    assert f"To repeat with the same histories: longmemeval {line}" in done.stderr
    drawn = (tmp_path / "probes.svg").read_text()
    assert all(word in drawn for word in ("<svg", "bm25", "oracle (upper bound)", "deletion", UNKNOWN, "0/2"))
    assert command(line).stdout.splitlines()[0] == done.stdout.splitlines()[0]


def test_a_picture_is_an_svg(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("probe --memory bm25 --output probes.png")
    assert done.code == 2
    assert "ends in .svg" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_length_out_of_range_is_refused(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("probe --memory bm25 --sessions 2000")
    assert done.code == 2
    assert "10 to 1,000" in done.stderr
