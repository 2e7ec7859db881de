"""BEAM's plants: what a nugget has an answer state, and which part of a rubric an answer is graded by."""

from datetime import datetime

import pytest

from longmemeval.benchmarks.beam.benchmark import KINDS, PLANTING
from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.benchmarks.beam.plants import statement
from longmemeval.judges.plants.planting import Ground, Plant
from longmemeval.records import Haystack, Question


@pytest.mark.parametrize(
    ("nugget", "stated"),
    [
        ("LLM response should state: a red kite", "a red kite"),
        ("The response should mention that you sold the boat", "you sold the boat"),
        ("Response must include: 12 eggs", "12 eggs"),
        ("you met Ann twice", "you met Ann twice"),
        ("this was in May", "this was in May"),
        ("mentions several brands", None),
        ("LLM response should contain: breaks the task into steps", None),
        ("The answer should not contain prices", None),
        ("avoid jargon", None),
        ("Response should be itemised", None),
        ("the response gives sources", None),
    ],
)
def test_what_a_nugget_has_an_answer_state(nugget: str, stated: str | None) -> None:
    assert statement(nugget) == stated


def gold(name: str, ability: str, *rubric: str) -> BeamGold:
    return BeamGold(name, ability, "described", (), (), abstention=ability == "abstention", rubric=rubric)


def planted(*golds: BeamGold) -> dict[str, Plant]:
    """Of the first question, by kind."""
    day = datetime(2024, 5, 1)
    questions = [Question(one.question_id, "What of it?", day, "", "h") for one in golds]
    ground = Ground(questions, {one.question_id: one for one in golds}, lambda _: "", lambda _: Haystack("h", ()))
    return {one.kind: one for one in PLANTING.plants(ground, questions[:1])}


def test_what_is_left_out_is_graded_apart_from_what_is_stated() -> None:
    asked = gold("q", "summarization", "LLM response should contain: you sold boats", "then Ann sold hers", "rain fell")
    found = planted(asked)
    assert found["nuggets"].text == "You sold boats. Then Ann sold hers. Rain fell."
    # The second shares a word with the first: an answer without it may be found to say a part of it.
    assert found["left-out"].text == found["answered"].text == "You sold boats. Then Ann sold hers."
    assert (found["answered"].parts, found["left-out"].parts) == ((0, 1), (2,))
    assert (found["answered"].right, found["left-out"].right) == (True, False)
    by = PLANTING.graded_by(asked, found["left-out"])
    assert isinstance(by, BeamGold)
    assert by.rubric == ("rain fell",)
    assert PLANTING.graded_by(asked, found["nuggets"]) == asked
    assert set(found) <= set(KINDS)


@pytest.mark.parametrize("ability", ["instruction_following", "preference_following"])
def test_what_describes_the_reply_is_not_met_by_saying_it(ability: str) -> None:
    found = planted(gold("q", ability, "LLM response should contain: step-by-step breakdown"))
    assert set(found) == {"refusal", "instruction", "empty", "cut"}
    assert not any(one.right for one in found.values())


def test_a_value_alone_is_changed_and_one_among_others_is_not() -> None:
    assert planted(gold("q", "knowledge_update", "LLM response should state: 12"))["changed-number"].text != "12"
    for rubric in (["two sizes: 11 and 11.5"], ["the price is below your first budget of $200"], ["1 day", "in May"]):
        assert "changed-number" not in planted(gold("q", "knowledge_update", *rubric))


def test_an_order_is_right_or_reversed() -> None:
    found = planted(gold("q", "event_ordering", "planning", "LLM response should mention: buying", "selling"))
    assert {kind: one.text for kind, one in found.items()} == {
        "in-order": "1. planning\n2. buying\n3. selling",
        "reversed": "1. selling\n2. buying\n3. planning",
    }
    assert planted(gold("q", "event_ordering", "planning", "Planning")) == {}


def test_what_is_not_known() -> None:
    nothing = "Based on the provided chat, there is no information related to the boat"
    found = planted(gold("q", "abstention", nothing), gold("o", "information_extraction", "a red kite"))
    assert {kind for kind, one in found.items() if one.right} == {"nuggets", "polite", "declines"}
    assert found["answers-unanswerable"].text == "A red kite."
    assert "refusal" not in found


def test_another_question_s_nuggets_have_nothing_of_this_one_s() -> None:
    others = [gold("o", "temporal_reasoning", "15 days"), gold("p", "temporal_reasoning", "2 weeks, in May")]
    assert "other-question" not in planted(gold("q", "temporal_reasoning", "14 hours"), *others)
    assert planted(gold("q", "temporal_reasoning", "3 hours"), *others)["other-question"].made_by.startswith(
        "nuggets of"
    )
