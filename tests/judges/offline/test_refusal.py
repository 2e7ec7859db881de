"""Which answers abstain, by answers written by hand for this test.

Most of them ("tuned") were at hand while the rules were made. Two groups were written before the rules they test and
not looked at while these were made: "unseen" before version 1, "unseen long" before version 2. The latter are as models
write them step by step; those among them that do not refuse were written to look as if they did.
"""

import inspect
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

import longmemeval
from longmemeval.judges.offline import refusal
from longmemeval.judges.offline.refusal import abstains
from tests.support import IN_PROPORTION, growth


class Case(Struct, frozen=True):
    half: Literal["tuned", "unseen", "unseen long"]
    abstains: bool
    text: str


CASES = msgspec.json.decode(
    b"[%s]" % b",".join(Path(__file__).with_name("abstaining_answers.jsonl").read_bytes().splitlines()),
    type=tuple[Case, ...],
)
TUNED = [case for case in CASES if case.half == "tuned"]
UNSEEN = [case for case in CASES if case.half == "unseen"]


@pytest.mark.parametrize("case", TUNED, ids=lambda case: case.text[:60])
def test_answers_the_rules_were_made_with(case: Case) -> None:
    assert abstains(case.text) is case.abstains


def test_answers_the_rules_were_not_made_with() -> None:
    called = [case for case in UNSEEN if abstains(case.text)]
    right = sum(case.abstains for case in called)
    assert len(UNSEEN) >= 80
    assert right / len(called) >= 0.95, [case.text for case in called if not case.abstains]
    assert right / sum(case.abstains for case in UNSEEN) >= 0.9


def test_long_answers_the_rules_were_not_made_with() -> None:
    refusals = [case for case in CASES if case.half == "unseen long" and case.abstains]
    others = [case for case in CASES if case.half == "unseen long" and not case.abstains]
    found = sum(abstains(case.text) for case in refusals)
    assert (len(refusals), len(others)) == (26, 18)
    assert found / len(refusals) >= 0.9
    assert sum(abstains(case.text) for case in others) / len(others) < 0.25


CHAIN = """To answer this question, I will follow these steps:

**Step 1: Extract relevant information**

* Session 1: the user planted basil. There is no mention of tomatoes.
* Session 2: {second}

**Step 2: Reason over the information**

The exact day in session 2 is not stated.

{end}"""


@pytest.mark.parametrize(
    ("second", "end", "expected"),
    [
        ("the user planted tomatoes in May.", "Therefore, the tomatoes were planted in **May**.", False),
        ("the user planted tomatoes in May.", "**Answer:** In May", False),
        ("the user bought a spade.", "Therefore, it cannot be determined when the tomatoes were planted.", True),
        ("the user bought a spade.", "**Answer:** The user did not mention planting tomatoes.", True),
        ("the user bought a spade.", "### Final answer\n\nI don't know.", True),
        ("the user bought a spade.", 'The answer is: "Not enough information."', True),
        ("nothing about tomatoes.", "Therefore, the number of tomatoes planted is: **0**", False),
    ],
)
def test_the_end_of_a_chain_of_reasoning_decides(second: str, end: str, expected: bool) -> None:
    assert abstains(CHAIN.format(second=second, end=end)) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", ["", " ", "0", "none", "None.", "No.", "nothing", "\N{SNOWMAN}", "Answer:", "(", '"']
)
def test_short_answers_are_answers(answer: str) -> None:
    assert abstains(answer) is False


def test_mentioned_but_not_what_was_asked_for() -> None:
    assert abstains("Our conversations mention a microscope for your grandson, but no granddaughter.")
    assert not abstains("You drink coffee with milk but no sugar.")
    assert not abstains("I can't find a granddaughter in our chats. Perhaps she got a microscope too.")
    assert abstains("I can't find a granddaughter in our chats. Perhaps you told someone else.")


FACTS = """Here is what the history says:
1. On 3 May you bought a kayak for $400.
2. On 9 May you paddled 12 km.

"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("Based on this, I cannot provide a definitive answer.", True),
        ("It's impossible to determine how many days passed.", True),
        ("It's not possible for me to provide an exact answer.", True),
        ("It's impossible to determine whether the kayak came first.\n\nIf you tell me more, I can help.", True),
        ("I cannot provide a definitive answer, but 12 km is a good guess.", False),
        ("I cannot provide a definitive answer. Probably 24 km.", False),
        ("It's not possible for me to provide an exact answer. At least 12 km.", False),
        ("So it was 12 km. It's impossible to determine the exact route.", False),
        ("You paid $400, though I cannot say exactly when.", False),
    ],
)
def test_a_long_answer_may_refuse_at_its_end(end: str, expected: bool) -> None:
    assert abstains(FACTS + end) is expected
    assert abstains(FACTS.replace("\n", " ") + end) is expected


def test_a_refusal_in_json_or_in_quotes() -> None:
    assert abstains('{"reasoning": "The cat is called Luna.", "answer": "You did not mention a hamster."}')
    assert not abstains('{"reasoning": "You did not mention a hamster.", "answer": "Luna"}')
    assert abstains('"I don\u2019t know."')
    assert not abstains("The note on the door said \"I don't know when I am back\", and it was Tom's.")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert abstains(text) in (True, False)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "part", ["\n", "#", '"', "(", "no ", "add ", "the information ", "answer: ", "a, but ", "a\n\n"]
)
def test_no_text_takes_long(part: str) -> None:
    """A pattern that tries every beginning with every end would take minutes."""
    assert growth(lambda size: abstains(part * (size // len(part))), 15_000) < IN_PROPORTION


_BITS = [
    "I ",
    "do ",
    "no",
    "n't ",
    "*",
    '"',
    "_",
    "t ",
    "not ",
    "know",
    "(x)",
    " un",
    "able ",
    "Answer: ",
    ". ",
    "But ",
]


@given(st.lists(st.sampled_from(_BITS), max_size=12).map("".join))
def test_what_is_passed_over_unread_is_no_refusal(text: str) -> None:
    if not refusal._may_refuse(refusal._plain(text)):
        final = refusal._final_part(refusal._plain(text))
        assert not refusal._refuses(final)
        assert not refusal._refuses(refusal._from_last_word(final))


@given(st.lists(st.sampled_from((*_BITS, *refusal._ANSWER_WORDS, "the ", "by saying", ":", " is:", "\n")), max_size=12))
def test_every_mark_of_an_answer_has_a_word_that_is_looked_for(bits: list[str]) -> None:
    marks = [mark[0] for mark in refusal._ANSWER_MARK.finditer("".join(bits).lower())]
    assert all(any(word in mark for word in refusal._ANSWER_WORDS) for mark in marks)


def test_it_is_exported() -> None:
    assert inspect.unwrap(longmemeval.abstains) is inspect.unwrap(abstains)
