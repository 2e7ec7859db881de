"""Plants are right or wrong by how they are made."""

from datetime import datetime
from random import Random

import pytest
from msgspec import structs

from longmemeval.evaluation.plants.forms import (
    kind_of,
    names_in,
    other_forms,
    reordered,
    with_other_date,
    with_other_name,
    with_other_number,
    with_other_polarity,
)
from longmemeval.evaluation.plants.make import Planting, superseded
from longmemeval.evaluation.plants.plant import KINDS, Plant
from longmemeval.records import Gold, Haystack, Question, Session, Turn

DAY = datetime(2023, 5, 8)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("7 May 2023", "May 7, 2023"),
        ("On 24 February, 2023", "On February 24, 2023"),
        ("May 7, 2023", "7 May 2023"),
        ("August 15", "15 August"),
        ("two weeks", "14 days"),
        ("Three dogs", "3 dogs"),
        ("She has 3 cats", "She has three cats"),
        ("Seven", "7"),
    ],
)
def test_the_same_in_another_form(text: str, form: str) -> None:
    assert [one for one, _ in other_forms(text)] == [form]


@pytest.mark.parametrize("text", ["Oslo", "November 5-6, 2022", "1,575", "7:00", "glmmTMB", "Since 2016", "49:35"])
def test_what_has_no_other_form(text: str) -> None:
    assert not list(other_forms(text))


def test_lists_are_turned_round_where_their_order_says_nothing() -> None:
    assert reordered("pottery, camping, painting, swimming") == "swimming, painting, camping and pottery"
    assert reordered("Sun, sand and sea.") == "sea, sand and Sun"
    assert reordered("the eye operation, then the trip, then the show") is None
    assert reordered("bread and butter") is None
    assert reordered("May 7, 2023, and June") is None


@pytest.mark.parametrize("text", ["4", "Three days", "$840 a month", "£1,575", "9 days. 10 days is also acceptable."])
def test_a_changed_number_is_none_that_the_gold_names(text: str) -> None:
    changed = with_other_number(text, Random(1))
    assert changed is not None
    wrong, made_by = changed
    assert wrong != text
    assert made_by.partition(" -> ")[2] not in text.split()
    assert len(wrong.split()) == len(text.split())


def test_dates_names_and_polarity_change() -> None:
    for text in ("7 May 2023", "Thursdays", "Since 2016"):
        changed = with_other_date(text, Random(2))
        assert changed is not None
        assert changed[0] != text
        assert with_other_number(text, Random(2)) is None
    assert names_in("Brave by Sara Bareilles, on Monday") == ["Sara", "Bareilles"]
    assert with_other_name("met Sara", ["Sara", "Tom"], Random(0)) == ("met Tom", "Sara -> Tom")
    assert with_other_name("met Sara", ["Sara"], Random(0)) is None
    assert with_other_polarity("Yes; it's classical music") == ("No.", "yes -> no")
    assert with_other_polarity("Nobody") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Yes, twice", "polarity"), ("June", "date"), ("since 2016", "date"), ("4 bikes", "number"), ("Oslo", "text")],
)
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def gold(question_id: str, answer: str, **changes: object) -> Gold:
    return structs.replace(Gold(question_id, "t", answer, ("s",), (), abstention=False), **changes)


def question(question_id: str, text: str = "How many bikes does Ann own in Oslo?") -> Question:
    return Question(question_id, text, DAY, "", "h")


HAYSTACK = Haystack(
    "h",
    (
        Session(
            "s", DAY, "", (Turn("user", "I own 3 bikes now."), Turn("assistant", "Nice bikes for Oslo, all of yours!"))
        ),
        Session("u", DAY, "", (Turn("user", "I own 4 bikes now, one is new."),)),
        Session("v", DAY, "", (Turn("user", "Riding bikes in Oslo is a joy for me. Do you like bikes in Oslo?"),)),
    ),
)
GOLDS = [
    gold("q", "4 bikes", evidence_turns=("s:0", "u:0")),
    gold("other", "12 letters"),
    gold("same", "40 bikes"),
    gold("date", "7 May 2023"),
]


def planted(of: Gold, seed: int = 0) -> dict[str, Plant]:
    planting = Planting(GOLDS, lambda one: one.question_id == "q", lambda one: HAYSTACK, seed)
    return {plant.kind: plant for plant in planting.of(question(of.question_id), of)}


def test_plants_of_an_answerable_question() -> None:
    found = planted(GOLDS[0])
    assert {kind for kind, plant in found.items() if plant.right} == {"gold", "polite", "other-form"}
    assert found["gold"].text == "4 bikes"
    assert "4 bikes." in found["polite"].text
    assert found["other-form"].text == "four bikes"
    # The other number of the type that shares no word with the gold.
    assert (found["other-question"].text, found["other-question"].made_by) == ("12 letters", "gold of other")
    assert found["superseded"].text == "3 bikes"
    assert found["superseded"].made_by == "4 -> 3, said in the first evidence turn"
    # Neither the evidence, nor what stands beside it, nor a question.
    assert (found["topical"].text, found["topical"].made_by) == ("Riding bikes in Oslo is a joy for me.", "v:0")
    assert "4 bikes" in found["both"].text
    assert found["changed-number"].text in found["both"].text
    assert found["empty"].text == ""
    assert set(found) <= set(KINDS)


def test_plants_of_an_unanswerable_question() -> None:
    trapped = planted(gold("u1", "Not mentioned", abstention=True, trap="a tandem"))
    assert {kind for kind, plant in trapped.items() if plant.right} == {"declines"}
    assert trapped["answers-unanswerable"].text == "a tandem"
    assert set(trapped) == {"declines", "answers-unanswerable", "instruction", "empty", "cut"}


def test_a_gold_that_describes_answers_is_none() -> None:
    rubric = gold("p", "The user would prefer " + "quiet places near water " * 8)
    found = planted(rubric)
    assert not any(plant.right for plant in found.values())
    assert set(found) == {"topical", "refusal", "instruction", "empty", "cut"}


def test_yes_and_no_have_no_topical_sentence() -> None:
    found = planted(gold("y", "Yes"))
    assert found["changed-polarity"].text == "No."
    assert not found.keys() & {"topical", "other-question"}


def test_the_same_seed_gives_the_same_plants() -> None:
    assert planted(GOLDS[0], 5) == planted(GOLDS[0], 5)
    assert any(planted(GOLDS[0], 0) != planted(GOLDS[0], seed) for seed in range(1, 6))


def test_nothing_is_superseded_where_nothing_was_updated() -> None:
    assert superseded("4 bikes", gold("q", "4 bikes", evidence_turns=("u:0",)), HAYSTACK) is None
    assert superseded("4 cars", gold("q", "4 cars", evidence_turns=("s:0", "u:0")), HAYSTACK) is None
