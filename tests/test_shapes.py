"""`scripts/benchmarks/shapes.py`: data sets of a large shape, small here."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "benchmarks" / "shapes.py"


def written(path: Path, *arguments: str) -> Path:
    subprocess.run([sys.executable, "-B", str(SCRIPT), arguments[0], str(path), *arguments[1:]], check=True)
    return path


@pytest.mark.thorough
def test_haystacks_of_m_share_sessions_and_hold_their_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "m.json", "m", "--haystacks", "6", "--sessions", "20")
    again = written(tmp_path / "again.json", "m", "--haystacks", "6", "--sessions", "20")
    assert path.read_bytes() == again.read_bytes()
    dataset = load_dataset(path)
    haystacks = list(dataset.haystacks())
    assert [len(haystack.sessions) for haystack in haystacks] == [20] * 6
    held = Counter(session.session_id for haystack in haystacks for session in haystack.sessions)
    assert sum(count > 1 for count in held.values()) > len(held) / 2
    for question in dataset.questions():
        (evidence,) = dataset.gold(question.question_id).evidence_sessions
        said = question.text.removeprefix("Where do I keep my ").removesuffix("?")
        texts = [
            session.turns[0].content
            for session in dataset.haystack(question.haystack_id).sessions
            if session.session_id == evidence
        ]
        assert texts[0].startswith(f"I keep my {said} in the ")


def test_one_large_haystack_has_as_many_messages_as_asked(tmp_path: Path) -> None:
    dataset = load_dataset(written(tmp_path / "big.json", "10m", "--messages", "93"))
    (haystack,) = dataset.haystacks()
    assert sum(len(session.turns) for session in haystack.sessions) == 93
