"""Made-up lives: the same for a seed, another for another, true by construction."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.lives.making import (
    AS_OF,
    HOSTILE,
    PEOPLE,
    PLAIN,
    PROBES,
    UPDATE,
    LivesDataset,
    make_life,
    write_lives,
)
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.measures.changes import ChangingGold


def test_the_same_seed_makes_the_same_life_and_another_another() -> None:
    assert make_life("a", 20) == make_life("a", 20)
    one, other = make_life("a", 20), make_life("b", 20)
    assert [asked.answer for asked in one.asked] != [asked.answer for asked in other.asked]


@pytest.mark.parametrize("sessions", [10, 100, 1000])
def test_truth_is_in_the_sessions(sessions: int) -> None:
    life = make_life("truth", sessions)
    assert len(life.sessions) == sessions
    assert {asked.probe for asked in life.asked} == set(PROBES)
    for asked in life.asked:
        session, turn = asked.current
        role, text = life.sessions[session][turn]
        assert role == "user"
        assert asked.answer in text
        for place, index in asked.wrong:
            assert asked.answer not in life.sessions[place][index][1]
        # Nothing but the statement gives the answer away.
        holding = [text for turns in life.sessions for _, text in turns if asked.answer in text]
        assert len(holding) == 1 or asked.probe == PEOPLE
        assert asked.answer not in asked.text


def test_times_are_those_the_questions_need() -> None:
    life = make_life("times", 100)
    for asked in life.asked:
        ((wrong, *_),) = (asked.wrong[0],) if asked.wrong else ((asked.current[0],),)
        if asked.probe in (UPDATE, HOSTILE) and asked.wrong:
            assert (wrong < asked.current[0]) == (asked.probe == UPDATE)
        if asked.probe == AS_OF:
            month = asked.text.rstrip("?").split(" in ")[-1].split()
            assert life.dates[asked.current[0]].year <= int(month[1]) <= life.dates[wrong].year
            assert asked.current[0] < wrong
    assert all(earlier < later for earlier, later in zip(life.dates, life.dates[1:], strict=False))


def test_a_file_of_lives_is_a_data_set(tmp_path: Path) -> None:
    path = write_lives(tmp_path / "lives.json", 7, 2, (10, 30))
    dataset = load_dataset(path)
    assert isinstance(dataset, LivesDataset)
    assert [haystack.haystack_id for haystack in dataset.haystacks()] == ["10-0", "10-1", "30-0", "30-1"]
    for question in dataset.questions():
        gold = dataset.gold(question.question_id)
        assert isinstance(gold, ChangingGold)
        assert bool(gold.superseded) == (gold.question_type != PLAIN)
    assert dataset.content_sha256 == load_dataset(path).content_sha256
