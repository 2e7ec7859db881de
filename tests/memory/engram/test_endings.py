"""What ends, what does not, and what held once: lives told in every sort of words."""

import sys
from pathlib import Path

from tests.memory.engram.lives import endings, lives, shown

HERE = Path(__file__).parent


def test_endings_are_told_from_what_ends_nothing() -> None:
    cases = lives(HERE / "endings.txt")
    assert sum(len(session.turns) for life in cases for session in life.sessions) >= 120
    kinds = shown(HERE / "endings.txt")
    told = {kind: verdicts for kind, verdicts in kinds.items() if not kind.startswith(("a past", "a start"))}
    wrong, found, there = endings(told, "what ends nothing")
    sys.stdout.write(f"endings: precision {found} of {found + wrong}, recall {found} of {there}\n")
    assert found / (found + wrong) >= 0.9
    assert found / there >= 0.8
