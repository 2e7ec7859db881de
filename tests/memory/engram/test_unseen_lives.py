"""Whole lives, told as people chat: how much of each the rules know. `docs/engram.md` says which of them were seen."""

import sys
from pathlib import Path

import pytest

from tests.memory.engram.lives import shown

HERE = Path(__file__).parent
KNOWN = {
    "unseen_life.txt": (37, 37),
    "unseen/a.txt": (37, 37),
    "unseen/b.txt": (37, 37),
    "unseen/c.txt": (36, 37),
    "unseen/d.txt": (34, 40),
    "unseen/e.txt": (37, 40),
    "unseen/f.txt": (39, 40),
}
"""Checks answered, and all. For c, which no rule was mended for, it is what the rules answered the first time."""


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_a_life_is_known_from_what_was_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = [one for told in shown(HERE / name).values() for one in told]
    printed = capsys.readouterr().out
    sys.stdout.write(printed.splitlines()[-1] + "\n" if name == "unseen/c.txt" else printed)
    right, checks = KNOWN[name]
    assert len(verdicts) == checks
    assert sum(one.right for one in verdicts) >= right
