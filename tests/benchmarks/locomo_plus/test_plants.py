"""LoCoMo-Plus's plants: replies that are linked to the cue, and replies that are not."""

from datetime import datetime

import pytest

from longmemeval.benchmarks.locomo_plus.benchmark import PLANTING
from longmemeval.benchmarks.locomo_plus.protocol import retold
from longmemeval.judges.plants.planting import Ground, Plant
from longmemeval.records import Gold, Haystack, Question


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("I lost my bike", "You lost your bike"),
        ("Since I was ill, I\u2019ve slept a lot", "Since you were ill, you've slept a lot"),
        ("Ann helped me; I'm glad of it myself", "Ann helped you; you're glad of it yourself"),
    ],
)
def test_what_is_said_is_retold_to_who_said_it(said: str, heard: str) -> None:
    assert retold(said) == heard


def planted(*items: tuple[str, str]) -> dict[str, Plant]:
    """Of the first of some cues and triggers, by kind."""
    golds, questions = {}, []
    for number, (cue, trigger) in enumerate(items):
        name, text = f"q{number}", f"Ann\N{FULLWIDTH COLON}{cue}"
        golds[name] = Gold(
            name,
            "cognitive",
            text,
            (),
            (),
            abstention=False,
            evidence_texts=(text, f"Bo\N{FULLWIDTH COLON}number{number}"),
        )
        questions.append(Question(name, trigger, datetime(2023, 5, 8), "", "h"))
    ground = Ground(questions, golds, lambda _: "", lambda _: Haystack("h", ()))
    return {one.kind: one for one in PLANTING.plants(ground, questions[:1])}


def test_replies_are_linked_or_not() -> None:
    found = planted(
        ("I sold my boat.\\nB: A pity.", "The harbour looks empty."),
        ("My boat leaks.", "Water again!"),
        ("I swim daily.", "The harbour is cold."),
        ("Ann gave me a cat.", "It sleeps."),
    )
    assert {kind for kind, one in found.items() if one.right} == {"linked", "retold", "linked-late"}
    assert all("sold" in one.text and "pity" not in one.text for one in found.values() if one.right)
    # One shares a word with the cue, one with the trigger.
    assert found["other-cue"].made_by == "cue of q3"
    assert {"general", "forgets"} <= set(found)


def test_a_cue_without_another_that_is_far_from_it() -> None:
    assert "other-cue" not in planted(("I sold my boat.", "Empty."), ("My boat leaks.", "Water!"))
