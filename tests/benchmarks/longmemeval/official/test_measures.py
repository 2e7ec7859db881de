import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.benchmarks.longmemeval.official.measures import (
    DENOMINATORS,
    Denominator,
    evaluate_retrieval,
    evaluate_turn_to_session,
    is_counted,
    official_corpus,
    official_gold,
)
from tests import support


def user(content: str, **label: bool) -> dict[str, Any]:
    return {"role": "user", "content": content, **label}


def assistant(content: str, **label: bool) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **label}


def record(sessions: dict[str, list[dict[str, Any]]], question_id: str = "q1") -> Record:
    plain = support.record(
        question_id,
        haystack_session_ids=list(sessions),
        haystack_sessions=list(sessions.values()),
        haystack_dates=[f"2023/05/{day:02} (Sat) 02:21" for day in range(1, len(sessions) + 1)],
        answer_session_ids=[],
    )
    return msgspec.convert(plain, Record)


HAYSTACK = record(
    {
        "answer_x": [
            assistant("Hello.", has_answer=False),
            user("My bike is green.", has_answer=True),
            assistant("Nice.", has_answer=True),
            user("And heavy.", has_answer=False),
        ],
        "answer_answer_y": [user("Hi.", has_answer=False), assistant("It is green.", has_answer=True)],
        "filler_1": [user("One."), assistant("Two."), user(" ")],
        "filler_2": [assistant("Nobody asked.")],
    }
)


def test_session_corpus() -> None:
    documents = official_corpus(HAYSTACK, "session")
    assert [(one.corpus_id, one.text, one.timestamp[:10]) for one in documents] == [
        ("answer_x", "My bike is green. And heavy.", "2023/05/01"),
        # Only an assistant's turn is labelled: no gold. Every "answer" in the id is replaced.
        ("noans_noans_y", "Hi.", "2023/05/02"),
        ("filler_1", "One.  ", "2023/05/03"),
        ("filler_2", "", "2023/05/04"),
    ]


def test_turn_corpus() -> None:
    documents = official_corpus(HAYSTACK, "turn")
    assert [(one.corpus_id, one.text, one.timestamp[:10]) for one in documents] == [
        ("answer_x_2", "My bike is green.", "2023/05/01"),
        ("noans_x_4", "And heavy.", "2023/05/01"),
        ("noans_noans_y_1", "Hi.", "2023/05/02"),
        ("filler_1_1", "One.", "2023/05/03"),
        ("filler_1_3", " ", "2023/05/03"),
    ]


def test_gold_is_what_still_says_answer() -> None:
    assert official_gold(["answer_x", "noans_y", "filler", "my_answer_z", "answer_x"]) == {"answer_x", "my_answer_z"}


def test_a_labelled_turn_outside_an_evidence_session_is_not_gold() -> None:
    documents = official_corpus(record({"filler_1": [user("Green.", has_answer=True)]}), "turn")
    assert official_gold(one.corpus_id for one in documents) == set()


def test_a_session_that_occurs_twice_is_two_documents() -> None:
    twice = msgspec.structs.replace(
        HAYSTACK,
        haystack_session_ids=("filler_1", "filler_1"),
        haystack_sessions=(HAYSTACK.haystack_sessions[2],) * 2,
        haystack_dates=HAYSTACK.haystack_dates[:2],
    )
    assert [one.corpus_id for one in official_corpus(twice, "session")] == ["filler_1", "filler_1"]


@pytest.mark.parametrize(
    ("rankings", "k", "expected"),
    [
        # Gold at places 0 and 3 of the corpus; the ideal at k >= 2 is 2.
        ([0, 3, 1, 2], 1, (1.0, 0.0, 1.0)),
        ([0, 3, 1, 2], 2, (1.0, 1.0, 1.0)),
        ([1, 2, 0, 3], 3, (1.0, 0.0, 0.6309297535714575 / 2)),
        ([1, 2, 0, 3], 99, (1.0, 1.0, (0.6309297535714575 + 0.5) / 2)),
        ([1, 2, 0, 3], 2, (0.0, 0.0, 0.0)),
    ],
)
def test_official_scores(rankings: list[int], k: int, expected: tuple[float, float, float]) -> None:
    assert evaluate_retrieval(rankings, {"a", "b"}, ["a", "x", "y", "b"], k) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_without_gold_the_official_code_finds_all_of_nothing(k: int) -> None:
    assert evaluate_retrieval([2, 0, 1], [], ["x", "y", "z"], k) == (0.0, 1.0, 0.0)
    assert evaluate_turn_to_session([2, 0, 1], [], ["x_1", "y_1", "z_1"], k) == (0.0, 1.0, 0.0)


TURNS = ["answer_a_1", "noans_a_3", "noans_a_5", "f_1", "f_3", "g_1"]


@pytest.mark.parametrize(
    ("k", "expected"), [(1, (0.0, 0.0, 0.0)), (2, (0.0, 0.0, 0.0)), (3, (1.0, 1.0, 0.43067655807339306))]
)
def test_turn_to_session_known_answers(k: int, expected: tuple[float, float, float]) -> None:
    assert evaluate_turn_to_session([1, 2, 3, 4, 0, 5], {"answer_a_1"}, TURNS, k) == expected


def test_a_gold_session_with_two_labelled_turns_is_two_gold_items() -> None:
    turns = ["answer_a_1", "answer_a_3", "f_1"]
    # The two sessions of k = 2 are complete at rank 2: one of the two gold items is there.
    assert evaluate_turn_to_session([0, 2, 1], {"answer_a_1", "answer_a_3"}, turns, 2) == (1.0, 1.0, 0.5)


def grown_cutoff(sessions: Sequence[str], rankings: Sequence[int], k: int) -> int:
    """The official rule as it is worded: widen the window, one rank at a time, while it shows too few sessions."""
    window = k
    while len({sessions[index] for index in rankings[:window]}) < k and window <= len(sessions):
        window += 1
    return window


@given(data=st.data(), k=st.integers(1, 12))
def test_turn_to_session_equals_the_rule_as_worded(data: st.DataObject, k: int) -> None:
    sessions = data.draw(st.lists(st.sampled_from(["answer_a", "answer_b", "noans_a", "f", "g"]), max_size=10))
    turns = [f"{session}_{number}" for number, session in enumerate(sessions)]
    rankings = data.draw(st.permutations(range(len(turns))))
    rankings = rankings[: data.draw(st.integers(0, len(turns)))]
    expected = evaluate_retrieval(rankings, official_gold(sessions), sessions, grown_cutoff(sessions, rankings, k))
    assert evaluate_turn_to_session(rankings, official_gold(turns), turns, k) == expected


UNLABELLED = {"answer_x": [user("Green.", has_answer=False), assistant("Yes.", has_answer=True)]}
LABELLED = {"answer_x": [user("Green.", has_answer=True)]}


@pytest.mark.parametrize(
    ("sessions", "question_id", "counted"),
    [
        (LABELLED, "q1", {"user-evidence", "answerable", "all"}),
        # Evidence in the assistant's turns alone: the 51 that make 470 of 419.
        (UNLABELLED, "q1", {"answerable", "all"}),
        (LABELLED, "q1_abs", {"all"}),
        (UNLABELLED, "q1_abs_2", {"all"}),
        # Any labelled user turn will do, even where the corpus has no gold id.
        ({"filler_1": LABELLED["answer_x"]}, "q1", {"user-evidence", "answerable", "all"}),
    ],
)
def test_denominators(sessions: dict[str, list[dict[str, Any]]], question_id: str, counted: set[Denominator]) -> None:
    made = record(sessions, question_id)
    assert {denominator for denominator in DENOMINATORS if is_counted(made, denominator)} == counted


def test_the_real_question(real_longmemeval: Path) -> None:
    (made,) = LongMemEvalDataset(real_longmemeval).records()
    sessions = [one.corpus_id for one in official_corpus(made, "session")]
    turns = official_corpus(made, "turn")
    assert len(sessions) == 53
    assert official_gold(sessions) == {"answer_280352e9"}
    assert len(turns) == 273
    (gold,) = official_gold(one.corpus_id for one in turns)
    assert "Business Administration" in next(one.text for one in turns if one.corpus_id == gold)
    assert is_counted(made, "user-evidence")


def test_the_real_corpus_by_other_means(real_longmemeval: Path) -> None:
    (plain,) = json.loads(real_longmemeval.read_bytes())
    expected = []
    for session_id, session in zip(plain["haystack_session_ids"], plain["haystack_sessions"], strict=True):
        for index in range(len(session)):
            if session[index]["role"] != "user":
                continue
            evidence = "answer" in session_id and session[index]["has_answer"]
            name = session_id if evidence else session_id.replace("answer", "noans")
            expected.append((f"{name}_{index + 1}", session[index]["content"]))
    (made,) = LongMemEvalDataset(real_longmemeval).records()
    assert [(one.corpus_id, one.text) for one in official_corpus(made, "turn")] == expected
