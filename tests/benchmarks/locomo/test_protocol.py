"""What the official LoCoMo protocol adds to a question, and that nothing else of the gold gets into it."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from longmemeval.benchmarks.locomo.benchmark import LOCOMO
from longmemeval.benchmarks.locomo.format import NOT_MENTIONED
from longmemeval.benchmarks.locomo.judge import grade
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.locomo.protocol import OURS, Wording, official_questions
from longmemeval.errors import DataError
from longmemeval.records import Question
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.conftest import real_file


@pytest.fixture
def dataset(tmp_path: Path) -> LocomoDataset:
    return LocomoDataset(write(tmp_path / "data.json", *(make_conversation(f"conv-{number}") for number in range(40))))


def orders(questions: list[Question]) -> dict[str, tuple[str, ...]]:
    return {question.question_id: question.options for question in questions if question.options}


def test_two_categories_are_added_to(dataset: LocomoDataset) -> None:
    plain = list(dataset.questions())
    questions = official_questions(dataset, plain, seed=0)
    by_category = questions[:5]
    assert [question.appended for question in by_category[:4]] == ["", OURS.date_hint, "", ""]
    assert [question.options for question in by_category[:4]] == [()] * 4
    adversarial = by_category[4]
    first, second = adversarial.options
    assert {first, second} == {NOT_MENTIONED, "Bo's"}
    assert adversarial.appended.endswith(f"(a) {first} (b) {second}")
    # Nothing else changes: retrieval goes by the text.
    bare = [msgspec.structs.replace(question, appended="", options=()) for question in questions]
    assert bare == plain


def test_order_depends_on_seed_and_question_alone(dataset: LocomoDataset) -> None:
    plain = list(dataset.questions())
    whole = orders(official_questions(dataset, plain, seed=0))
    assert orders(official_questions(dataset, reversed(plain[40:90]), seed=0)).items() < whole.items()
    assert orders(official_questions(dataset, plain, seed=0)) == whole
    assert orders(official_questions(dataset, plain, seed=1)) != whole
    first = [options[0] for options in whole.values()].count(NOT_MENTIONED)
    assert 5 < first < 35


def test_order_is_the_same_on_every_machine(dataset: LocomoDataset) -> None:
    whole = orders(official_questions(dataset, dataset.questions(), seed=0))
    first = [whole[f"conv-{number}/q4"][0] == NOT_MENTIONED for number in range(8)]
    assert first == [True, False, True, False, True, True, False, False]


def test_what_was_added_before_is_replaced(dataset: LocomoDataset) -> None:
    once = official_questions(dataset, dataset.questions(), seed=3)
    marked = [msgspec.structs.replace(question, appended="old", options=("old",)) for question in once]
    assert official_questions(dataset, marked, seed=3) == once


def test_the_words_of_a_file_take_the_place_of_ours(dataset: LocomoDataset) -> None:
    plain = list(dataset.questions())[:5]
    wording = Wording(date_hint="When, roughly?", options="(a) {} or (b) {}!", not_mentioned="It is not mentioned")
    questions = official_questions(dataset, plain, seed=0, wording=wording)
    assert [question.appended for question in questions[:4]] == ["", "When, roughly?", "", ""]
    ours = official_questions(dataset, plain, seed=0)[4]
    assert questions[4].options == tuple("It is not mentioned" if one == NOT_MENTIONED else one for one in ours.options)
    assert questions[4].appended == "(a) {} or (b) {}!".format(*questions[4].options)


def test_a_trap_is_needed_by_the_official_protocol_alone(tmp_path: Path) -> None:
    qa = [{"question": "Whose?", "evidence": [], "category": 5}]
    dataset = LocomoDataset(write(tmp_path / "data.json", make_conversation(qa=qa)))
    (asked,) = dataset.questions()
    gold = dataset.gold(asked.question_id)
    assert (gold.abstention, gold.trap) == (True, None)
    open_gold = LOCOMO.gold_as_asked(gold, asked) if LOCOMO.gold_as_asked else gold
    assert open_gold.question_type == "open abstention"
    assert grade(asked, open_gold, "That is not mentioned.").score == 1
    with pytest.raises(DataError, match=r"which the data lacks .*data\.json"):
        official_questions(dataset, [asked], seed=0)


def test_braces_in_a_trap_stay(tmp_path: Path) -> None:
    qa = [{"question": "Whose?", "adversarial_answer": "{0} {trap} %s", "evidence": [], "category": 5}]
    dataset = LocomoDataset(write(tmp_path / "data.json", make_conversation(qa=qa)))
    (question,) = official_questions(dataset, dataset.questions(), seed=0)
    assert "{0} {trap} %s" in question.options
    assert "{0} {trap} %s" in question.appended


@pytest.mark.slow
def test_real_questions_are_offered_the_two_official_options() -> None:
    dataset = LocomoDataset(real_file("locomo10.json"))
    questions = official_questions(dataset, dataset.questions(), seed=42)
    assert len(questions) == 1986
    assert sum(question.appended == OURS.date_hint for question in questions) == 321
    offered = [question for question in questions if question.options]
    assert len(offered) == 446
    assert all(NOT_MENTIONED in question.options for question in offered)
    # One letter is right and the other wrong, but for the two traps that read "Not mentioned" themselves.
    letters = ("a", "b")
    credits = [
        sum(grade(question, dataset.gold(question.question_id), letter).score or 0 for letter in letters)
        for question in offered
    ]
    assert Counter(credits) == {1.0: 444, 2.0: 2}
