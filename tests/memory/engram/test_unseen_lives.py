"""Whole lives, told as people chat: how much of each the rules know. `docs/engram.md` says which of them were seen."""

import sys
from pathlib import Path

import pytest

from tests.memory.engram.lives import shown

HERE = Path(__file__).parent
KNOWN = {"unseen_life.txt": 37, "unseen/a.txt": 37, "unseen/b.txt": 21, "unseen/c.txt": 20}
"""Checks answered of 37: the files the rules were mended for, and those that were kept back until they were."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_life_is_known_from_what_was_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = [one for told in shown(HERE / name).values() for one in told]
    printed = capsys.readouterr().out
    sys.stdout.write(printed if name in ("unseen_life.txt", "unseen/a.txt") else printed[-120:])
    assert len(verdicts) == 37
    assert sum(one.right for one in verdicts) >= KNOWN[name]
