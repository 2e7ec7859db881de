"""Which answers had messages left out, by what the answer records and not by how its notes are worded."""

import pytest

from longmemeval.records import Answer
from longmemeval.results.lines import is_shortened


@pytest.mark.parametrize(
    ("dropped", "note", "shortened"),
    [
        (3, "", True),
        (0, "drop-oldest: what a memory calls its own way of forgetting", False),
        (None, "drop-newest: 3 messages left out, 900 -> 700 prompt tokens, limit 800", False),
    ],
)
def test_an_answer_says_whether_it_was_shortened(dropped: int | None, note: str, shortened: bool) -> None:
    answer = Answer("q", "said", "ok", notes=(note,), dropped=dropped)
    assert is_shortened(answer) is shortened
