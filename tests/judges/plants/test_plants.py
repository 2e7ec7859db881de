"""Plants are right or wrong by how they are made."""

from datetime import datetime
from random import Random

import pytest
from msgspec import structs

from longmemeval.judges.plants.answer_plants import dump, superseded
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.plants.forms import (
    kind_of,
    near,
    numbers_in,
    other_forms,
    person_names,
    reordered,
    stated,
    unit_of,
    with_other_date,
    with_other_name,
    with_other_number,
    with_other_polarity,
)
from longmemeval.judges.plants.planting import KINDS, Ground, Plant
from longmemeval.measures.plant_rates import judge_rates
from longmemeval.records import Gold, Haystack, Judgement, Question, Session, Turn

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
    asked = "What does she like?"
    assert reordered("pottery, camping, painting, swimming", asked) == "swimming, painting, camping and pottery"
    assert reordered("Sun, sand and sea.", asked) == "sea, sand and Sun"
    assert reordered("the eye operation, then the trip, then the show", asked) is None
    assert reordered("bread and butter", asked) is None
    assert reordered("May 7, 2023, and June", asked) is None
    assert reordered("training and coaching, workshops and classes for schools", asked) is None
    assert reordered("By the water, with light and oak floors", asked) is None


@pytest.mark.parametrize(
    "question",
    [
        "In which order did I visit them, from first to last?",
        "Put the three trips in chronological order.",
        "Which of them did I see earliest?",
        "What are the steps of the recipe?",
    ],
)
def test_no_list_is_turned_round_where_an_order_is_asked_for(question: str) -> None:
    assert reordered("Oslo, Rome and Lima", question) is None


@pytest.mark.parametrize("text", ["4", "Three days", "$840 a month", "£1,575", "Four weeks", "eleven", "Two"])
@pytest.mark.parametrize("seed", range(20))
def test_a_changed_number_is_not_even_one_off(text: str, seed: int) -> None:
    changed = with_other_number(text, (), Random(seed))
    assert changed is not None
    wrong, made_by = changed
    assert not near(numbers_in(text), numbers_in(wrong)), made_by
    assert len(wrong.split()) == len(text.split())


@pytest.mark.parametrize(
    ("gold", "stated_alone", "right"),
    [
        ("9 days. 10 days (including the last day) is also acceptable.", "9 days.", {9, 10}),
        ("Four weeks; five weeks would also be acceptable", "Four weeks;", {4, 5}),
        ("26 minutes (or 27 with the break)", "26 minutes", {26, 27}),
        ("A pasta machine", "A pasta machine", set()),
    ],
)
def test_what_a_gold_also_accepts_is_for_the_grader(gold: str, stated_alone: str, right: set[float]) -> None:
    assert stated(gold) == stated_alone
    for seed in range(30):
        changed = with_other_number(stated_alone, numbers_in(gold), Random(seed))
        assert changed is None or not near(right, numbers_in(changed[0]))


@pytest.mark.parametrize(
    "text",
    ["at least 3", "about 8 weeks", "3-4 days", "2 adults, 3 children", "~40 km", "between 5 and 7", "up to 12"],
)
def test_no_number_is_changed_where_another_may_be_right_too(text: str) -> None:
    assert with_other_number(text, (), Random(0)) is None


@pytest.mark.parametrize(
    ("asked", "answer", "kinds"),
    [
        ("How many bikes do I own?", "three or four", set()),
        ("How many bikes do I own?", "Either 3 bikes", set()),
        ("How long is the film?", "25 minutes and 50 seconds (or 25:50)", set()),
        ("What did they do first, swim or skate?", "They swam, 21 days earlier", set()),
        ("What pets do I have?", "Two cats and a lazy dog", set()),
        ("How many days did Ann stay?", "Ann stayed 6 days", {"changed-number"}),
        ("On which day did Ann see Tom?", "On Monday", {"changed-date"}),
        ("Where did Ann go on Monday?", "On Monday to the sea", set()),
        ("Whom did Ann meet?", "That was Tom", {"changed-name"}),
        ("Which film did Tom see?", "the Long Day After", set()),
    ],
)
def test_what_is_changed_is_what_was_asked_for(asked: str, answer: str, kinds: set[str]) -> None:
    """And the gold leaves no room for another value."""
    golds = [
        gold("a", answer),
        gold("b", "Some say That is Tom"),
        gold("c", "It was After the Eve, a long day"),
        gold("d", "That is Eve"),
    ]
    questions = [Question(one.question_id, asked, DAY, "", "h") for one in golds]
    ground = Ground(questions, {one.question_id: one for one in golds}, lambda _: "", lambda _: HAYSTACK)
    found = {plant.kind for plant in answer_planting().plants(ground, questions[:1])}
    assert {kind for kind in found if kind.startswith("changed")} == kinds


def test_another_answer_is_of_the_kind_that_is_asked_for() -> None:
    """A name stands for a name of the same kind, whole; a number for one with its unit; a place for a place."""
    texts = {
        "p": ("Whom did I meet?", "Ann Lee"),
        "q": ("Who came to dinner?", "Second Wind"),
        "w": ("Where did Ann go?", "Oslo"),
        "v": ("Where does Tom live?", "Bergen"),
        "m": ("How much is the rent?", "$500"),
        "n": ("How much is the van?", "$900"),
        "k": ("How far is the sea?", "45 km"),
        "t": ("What did Ann buy?", "a pasta machine"),
    }
    questions = [Question(name, text, DAY, "", "h") for name, (text, _) in texts.items()]
    golds = {name: gold(name, answer) for name, (_, answer) in texts.items()}
    ground = Ground(questions, golds, lambda _: "", lambda _: HAYSTACK)
    made = {plant.plant_id: plant.text for plant in answer_planting().plants(ground, questions)}
    assert (made["p:changed-name"], made["q:changed-name"]) == ("Second Wind", "Ann Lee")
    assert made["w:other-question"] == "Bergen"
    assert (made["m:other-question"], made["n:other-question"]) == ("$900", "$500")
    assert not made.keys() & {"k:other-question", "t:other-question", "t:changed-name"}


@pytest.mark.parametrize(
    ("text", "unit"),
    [("£38", "£"), ("$840 a month", "$"), ("45 km", "km"), ("Three days", "day"), ("6", ""), ("Oslo", "")],
)
def test_units(text: str, unit: str) -> None:
    assert unit_of(text) == unit


def test_dates_names_and_polarity_change() -> None:
    for text in ("7 May 2023", "Thursdays", "Since 2016"):
        changed = with_other_date(text, Random(2))
        assert changed is not None
        assert changed[0] != text
        assert with_other_number(text, (), Random(2)) is None
    assert person_names("Brave by Sara Bareilles, on Monday") == ["Sara Bareilles"]
    assert person_names("called That, then After and Long", {"long"}) == []
    assert with_other_name("met Sara", ["Sara", "Tom"], Random(0)) == ("met Tom", "Sara -> Tom")
    assert with_other_name("met Sara", ["Sara"], Random(0)) is None
    assert with_other_name("The Wolves", ["The Minnesota Wolves"], Random(0)) is None
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
    ground = Ground(
        [question(one.question_id) for one in GOLDS],
        {one.question_id: one for one in (*GOLDS, of)},
        lambda one: "knowledge-update" if one.question_id == "q" else "fact-recall",
        lambda one: HAYSTACK,
        seed,
    )
    return {plant.kind: plant for plant in answer_planting().plants(ground, [question(of.question_id)])}


def test_plants_of_an_answerable_question() -> None:
    found = planted(GOLDS[0])
    assert {kind for kind, plant in found.items() if plant.right} == {"gold", "polite", "other-form"}
    assert found["gold"].text == "4 bikes"
    assert "4 bikes." in found["polite"].text
    assert found["other-form"].text == "four bikes"
    # The other number of the type that counts the same.
    assert (found["other-question"].text, found["other-question"].made_by) == ("40 bikes", "gold of same")
    assert found["superseded"].text == "3 bikes"
    assert found["superseded"].made_by == "4 -> 3, said in the first evidence turn"
    # Neither the evidence, nor what stands beside it, nor a question.
    assert (found["topical"].text, found["topical"].made_by) == ("Riding bikes in Oslo is a joy for me.", "v:0")
    assert "4 bikes" in found["both"].text
    assert found["changed-number"].text in found["both"].text
    assert found["empty"].text == ""
    assert set(found) <= set(KINDS)
    # Words of the question alone, and words of the evidence alone.
    assert "bikes, Ann, Oslo" in found["vague"].text
    assert "4" not in found["vague"].text
    assert (found["dump"].text, found["dump"].made_by) == ("I own 3 bikes now. Nice bikes for Oslo, all of yours!", "s")


def words_of(*turns: int) -> str:
    return " ".join(str(turn) for turn in turns for _ in range(100))


def test_a_dump_is_of_the_evidence_and_not_endless() -> None:
    turns = tuple(Turn("user", f"{place} " * 100) for place in range(20))
    haystack = Haystack("h", (Session("r", DAY, "", turns), Session("s", DAY, "", turns)))
    assert dump(gold("q", "4 bikes", evidence_turns=("s:9",)), haystack) == (words_of(6, 7, 8), "s")
    assert dump(gold("q", "4 bikes"), haystack) == (words_of(0, 1, 2), "s")
    assert dump(gold("q", "4 bikes", evidence_sessions=()), haystack) is None


def test_plants_of_an_unanswerable_question() -> None:
    trapped = planted(gold("u1", "Not mentioned", abstention=True, trap="a tandem"))
    assert {kind for kind, plant in trapped.items() if plant.right} == {"declines"}
    assert trapped["answers-unanswerable"].text == "a tandem"
    assert set(trapped) == {"declines", "answers-unanswerable", "instruction", "empty", "cut"}


def test_a_gold_that_describes_answers_is_none() -> None:
    rubric = gold("p", "The user would prefer " + "quiet places near water " * 8)
    found = planted(rubric)
    assert not any(plant.right for plant in found.values())
    assert set(found) == {"topical", "vague", "dump", "refusal", "instruction", "empty", "cut"}


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


def test_a_type_with_wrong_plants_alone_counts_in_neither_rate() -> None:
    """Else refusals of it, which every judge fails, would flatter the judge on the rest."""
    told = [("a", "gold", True), ("a", "topical", False), ("b", "refusal", False), ("b", "empty", False)]
    plants = [Plant(f"{name}{kind}", name, name, kind, right, "", "") for name, kind, right in told]
    passed = {one.plant_id: Judgement(one.plant_id, one.question_type == "a", "", "j", "", "") for one in plants}
    rates = judge_rates(plants, passed)
    assert (rates.right.n, rates.wrong.n, rates.none.n) == (1, 1, 1)
    assert (rates.right.credit, rates.wrong.credit) == (1.0, 1.0)
    assert (rates.by_kind["refusal"].n, rates.by_type["b"][1].n) == (1, 1)
