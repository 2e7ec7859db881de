"""What ends, what does not, and what held once: lives told in every sort of words."""

import sys
from datetime import datetime
from pathlib import Path

import pytest

from longmemeval.memory.engram import Engram
from tests.memory.engram.lives import endings, lives, shown

HERE = Path(__file__).parent
NOTHING = (HERE / "endings_none.txt").read_text().splitlines()[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["endings.txt", "endings_second.txt", "endings_held.txt"])
def test_endings_are_told_from_what_ends_nothing(name: str) -> None:
    cases = lives(HERE / name)
    assert sum(len(session.turns) for life in cases for session in life.sessions) >= 120
    kinds = shown(HERE / name)
    told = {kind: verdicts for kind, verdicts in kinds.items() if not kind.startswith(("a past", "a start"))}
    wrong, found, there = endings(told, "what ends nothing")
    sys.stdout.write(f"endings: precision {found} of {found + wrong}, recall {found} of {there}\n")
    assert found / (found + wrong) >= 0.97
    assert found / there >= 0.9


@pytest.mark.slow
def test_what_only_looks_like_an_ending_ends_nothing() -> None:
    ended = []
    for line in NOTHING:
        known, _, said = line.partition(" // ")
        engine = Engram()
        engine.tell(known, datetime(2023, 1, 10, 10))
        before = {fact.fact_id for fact in engine.facts()}
        assert before, known
        engine.tell(said, datetime(2024, 3, 15, 10))
        if before - {fact.fact_id for fact in engine.facts()}:
            ended.append(line)
    assert len(NOTHING) >= 130
    assert not ended
