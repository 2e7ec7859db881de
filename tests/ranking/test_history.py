"""Units and priors."""

import pytest

from longmemeval.ranking.history import Granularity, HistoryView, Side
from longmemeval.ranking.lexical import Priors, without_names, words_of_date
from tests.ranking.support import history

CHAT = (
    [("assistant", "Hello!"), ("user", "Hi."), ("assistant", "What is new?"), ("user", "Nothing."), ("user", "Bye.")],
    [("user", "I bought a green bicycle in town."), ("assistant", "Is it fast?")],
)
NAMED = ([("Ada", "I met Bo in May."), ("Bo", "Where was it?")], [("Ada", "In Oslo.")])


@pytest.mark.parametrize(
    ("granularity", "side", "expected"),
    [
        ("turn", "both", ["s1:0", "s1:1", "s1:2", "s1:3", "s1:4", "s2:0", "s2:1"]),
        ("turn", "user", ["s1:1", "s1:3", "s1:4", "s2:0"]),
        ("round", "both", ["s1:0", "s1:1", "s1:3", "s1:4", "s2:0"]),
        ("session", "both", ["s1", "s2"]),
        ("session", "user", ["s1", "s2"]),
    ],
)
def test_units(granularity: Granularity, side: Side, expected: list[str]) -> None:
    view = HistoryView(history(*CHAT), granularity, side)
    assert [unit.unit_id for unit in view.units] == expected
    if side == "both":
        assert [place for places in view.places for place in places] == list(range(7))
        assert [message for unit in view.units for message in view.messages(unit)] == view.store.messages


def test_text_of_the_user_side_leaves_the_assistant_out() -> None:
    view = HistoryView(history(*CHAT), "session", "user")
    assert view.texts == ["Hi.\nNothing.\nBye.", "I bought a green bicycle in town."]


def test_neighbours_never_cross_a_session() -> None:
    view = HistoryView(history(*CHAT))
    assert view.is_near(1).tolist() == [True, True, True, True, False, True]
    assert view.is_near(4).tolist() == [True, False, False]
    assert view.is_near(7).tolist() == view.is_near(9).tolist() == []


def test_names_are_known_only_where_the_data_has_them() -> None:
    assert HistoryView(history(*NAMED)).names == ["Ada", "Bo"]
    assert HistoryView(history(*CHAT)).names == []


def test_speaker_by_name_and_by_person() -> None:
    named = Priors(HistoryView(history(*NAMED)))
    assert named.speaker("When did ada meet him?").tolist() == [1.0, 0.0, 1.0]
    assert named.speaker("Who was in Adana?").tolist() == [0.0, 0.0, 0.0]
    roles = Priors(HistoryView(history(CHAT[1])))
    assert roles.speaker("What did I buy?").tolist() == [1.0, 0.0]
    assert roles.speaker("What did you ask?").tolist() == [0.0, 1.0]
    assert roles.speaker("What was bought?").tolist() == [0.0, 0.0]


def test_statement_counts_words_outside_of_questions() -> None:
    priors = Priors(HistoryView(history([("user", "I bought a green bicycle. Is it fast?"), ("assistant", "Is it?")])))
    assert priors.statement.tolist() == pytest.approx([3 / (3 + 5), 0.0])


def test_date_is_the_share_of_the_date_words_a_session_has() -> None:
    priors = Priors(HistoryView(history([("user", "a")], [("user", "b")])))
    assert priors.date("What happened on May 2nd?").tolist()[1] == pytest.approx(1.0)
    assert priors.date("What happened on May 2nd?").tolist()[0] < 0.5
    assert priors.date("What happened in June 1999?").tolist() == [0.0, 0.0]
    assert priors.date("What may happen?").tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on May 5", {"m5", "d5-5"}),
        ("the 3rd of April, 2022", {"m4", "d4-3", "y2022"}),
        ("may I, in 1850?", set()),
        ("10 June and July 4th", {"m6", "d6-10", "m7", "d7-4"}),
    ],
)
def test_words_of_date(text: str, expected: set[str]) -> None:
    assert words_of_date(text) == expected


def test_names_leave_the_question_whole() -> None:
    assert without_names("What did Ada's sister give Ada, and when?", ["Ada"]) == "What did sister give, and when?"
    assert without_names("Adana is a town", ["Ada"]) == "Adana is a town"
