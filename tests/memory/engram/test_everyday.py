"""Everyday ways to tell of a change: what is current, what is kept as past, and what must not appear."""

import sys
from pathlib import Path

import pytest

from tests.memory.engram.lives import shown


@pytest.mark.slow
def test_everyday_words_change_what_is_known() -> None:
    verdicts = [one for told in shown(Path(__file__).with_name("everyday.txt")).values() for one in told]
    right, found = sum(one.right for one in verdicts), sum(one.found for one in verdicts)
    sys.stdout.write(f"{right} of {len(verdicts)}\n")
    assert len(verdicts) == 207
    assert right >= 204
    assert sum(one.met for one in verdicts) / found >= 0.98
