"""What a command shows on a terminal of some width, and snapshots of it."""

import re
from pathlib import Path

import pytest

from longmemeval.cli.output import err, out
from tests.cli.conftest import Command

WIDTHS = (80, 140)
SNAPSHOTS = Path(__file__).with_name("snapshots")

_TIMES = re.compile(r"\b\d+\.\d s\b")
_MOMENTS = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b(?= *$)", re.MULTILINE)


def shown(command: Command, monkeypatch: pytest.MonkeyPatch, line: str, width: int) -> str:
    """What `line` prints on a terminal of `width` columns, both streams; seconds are made alike."""
    monkeypatch.setenv("COLUMNS", str(width))
    for console in (out.console, err.console):
        monkeypatch.setattr(console, "_width", width)
        monkeypatch.setattr(console, "soft_wrap", False)
    done = command(line)
    text = done.stdout + (f"-- standard error --\n{done.stderr}" if done.stderr else "")
    return (
        "\n".join(one.rstrip() for one in _MOMENTS.sub("YYYY-MM-DD hh:mm", _TIMES.sub("N.N s", text)).splitlines())
        + "\n"
    )


def check_snapshot(name: str, text: str, *, write: bool) -> None:
    """`text` is what the snapshot says, or is written there."""
    path = SNAPSHOTS / f"{name}.txt"
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no snapshot {name}: pytest tests/cli/test_snapshots.py --write-snapshots"
    assert text == path.read_text()


def row(output: str, preset: str) -> list[str]:
    """The cells of a preset's line in the table of the demo's runs."""
    (line,) = [line for line in output.splitlines() if re.match(rf" {preset} .*\[", line)]
    return [cell for cell in line.removeprefix(f" {preset}").split() if re.fullmatch(r"\d+\.\d|\[.*,|.*\]|.*%", cell)]
