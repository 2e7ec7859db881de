"""The offline judge on single answers, and on answers that were labelled by hand as the official prompts ask.

Of the 505 labelled answers, written before the rules of version 3, half ("tuned", by question) were at hand while
these were made; the other half ("unseen") was not looked at.
"""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from longmemeval.core.files import safe_name, sha256_text
from longmemeval.core.text.quantities import plain_quantities
from longmemeval.judges.offline.comparison import normalise
from longmemeval.judges.offline.lexical import grade, lexical_judge
from longmemeval.judges.template_set import judge_name
from longmemeval.judges.votes import recomputed
from longmemeval.records import Gold, Judgement, Question, Usage
from tests.support import IN_PROPORTION, growth


class Labelled(Struct, frozen=True):
    half: Literal["tuned", "unseen"]
    question_type: str
    abstention: bool
    question: str
    gold: str | int
    answer: str
    right: bool


LABELLED = msgspec.json.decode(
    b"[%s]" % b",".join(Path(__file__).with_name("judged_answers.jsonl").read_bytes().splitlines()),
    type=tuple[Labelled, ...],
)


def asked(text: str) -> Question:
    return Question("q", text, datetime(2023, 5, 30), "2023/05/30", "h")


QUESTION = asked("What is it?")


def gold(answer: str | int, question_type: str = "multi-session", abstention: bool = False) -> Gold:
    return Gold("q", question_type, answer, (), (), abstention)


@pytest.mark.parametrize(
    ("answer", "hypothesis", "correct"),
    [
        ("Business Administration", "You graduated in business administration.", True),
        ("£38", "Mr Oyelaran takes £38 an hour from me.", True),
        ("£38", "He taught me for 38 hours.", False),
        ("$20 per month", "You pay $20 a month.", True),
        ("Business Administration", "You graduated in Fine Arts.", False),
        ("Business Administration", "", False),
        (3, "You bought three of them.", True),
        ("three", "3", True),
        (3, "You bought 13 of them.", False),
        (3, "About 3.5 of them.", False),
        (1300, "It has 1,300 followers.", True),
        ("$400,000", "The limit is $400,000.", True),
        ("the museum", "A Museum!", True),
        ("art", "You started early.", False),
        ("25:50 (or 25 minutes and 50 seconds)", "Your best time was 25:50.", True),
        ("25:50 (or 25 minutes and 50 seconds)", "It took 25 minutes and 50 seconds", True),
        ("25:50 (or 25 minutes and 50 seconds)", "It took 27:12.", False),
        ("7 days. 8 days (including the last day) is also acceptable.", "It took 8 days.", True),
        ("7 days. 8 days (including the last day) is also acceptable.", "Seven days", True),
        ("7 days. 8 days (including the last day) is also acceptable.", "9 days", False),
        ("14 days", "12 days", False),
        ("red leather sofa", "a red sofa", True),
        # One word of two is not enough; of three, two are.
        ("blue mug", "green mug", False),
        ("large blue mug", "A blue mug.", True),
        ("A", "A", True),
        ("\N{SNOWMAN}", "You said so.", False),
        ("(555)", "555", True),
    ],
)
def test_answerable_questions(answer: str | int, hypothesis: str, correct: bool) -> None:
    assert grade(QUESTION, gold(answer), hypothesis).label is correct


ABSTENTIONS = [
    "I don't know.",
    "I don\u2019t know.",
    "Unknown",
    "You didn't mention this.",
    "You did not explicitly mention a hamster, only a cat.",
    "The hamster is never mentioned in our chats.",
    "There is no specific information about that in the history.",
    "There isn't enough information to answer.",
    "The information provided is insufficient; I can't tell.",
    "It cannot be determined from our conversations.",
    "I'm unable to determine the date.",
    "I couldn't find any record of it.",
    "You haven't told me which one.",
    "I do not have that information.",
    "I have no idea",
    "That was not discussed.",
]


@pytest.mark.parametrize("hypothesis", ABSTENTIONS)
def test_an_abstention_is_right_only_for_unanswerable_questions(hypothesis: str) -> None:
    assert grade(QUESTION, gold("You did not mention it.", abstention=True), hypothesis).label is True
    assert grade(QUESTION, gold("hamster"), hypothesis).label is False


@pytest.mark.parametrize(
    "hypothesis",
    [
        "Your hamster is called Fred.",
        "",
        "You mentioned it in May.",
        "No, twice a week.",
        "It's a known unknown place.",
    ],
)
def test_an_answer_to_an_unanswerable_question_is_wrong(hypothesis: str) -> None:
    assert grade(QUESTION, gold("You did not mention your hamster.", abstention=True), hypothesis).label is False


@given(
    st.one_of(st.text(), st.integers(), st.just("I don't know")), st.sampled_from(["x", "single-session-preference"])
)
def test_not_knowing_never_answers_an_answerable_question(answer: str | int, question_type: str) -> None:
    assert grade(QUESTION, gold(answer, question_type), "I don't know.").label is False


@given(st.text(), st.text(), st.booleans())
def test_any_text_can_be_graded(answer: str, hypothesis: str, abstention: bool) -> None:
    assert grade(QUESTION, gold(answer, abstention=abstention), hypothesis).label in (True, False)


RUBRIC = (
    "The user would prefer responses that suggest resources specifically tailored to Adobe Premiere Pro, especially "
    "those that delve into its advanced settings. They might not prefer general video editing resources."
)


@pytest.mark.parametrize(
    ("hypothesis", "correct"),
    [
        ("Since you use Adobe Premiere Pro, try a course on its advanced colour settings.", True),
        ("General video editing is fun: watch some video channels.", False),
        ("The user would prefer responses that suggest this.", False),
        ("I don't know which Adobe Premiere Pro settings you use.", False),
    ],
)
def test_preference_rubrics(hypothesis: str, correct: bool) -> None:
    assert grade(QUESTION, gold(RUBRIC, "single-session-preference"), hypothesis).label is correct


def test_a_conversation_is_no_advice() -> None:
    said = "I edit with Adobe Premiere Pro, and my goal is to learn its advanced settings. Resources bore me. "
    assert grade(QUESTION, gold(RUBRIC, "single-session-preference"), said * 2 + "How do you like it?").label is False
    assert (
        grade(QUESTION, gold(RUBRIC, "single-session-preference"), f'You said "{said}" So try a course.').label is True
    )


def test_normalised_words() -> None:
    assert normalise("The cat's 1,300 twenty-five at 7:30, can't it?") == [
        *("cats", "1300", "25", "at", "7:30", "can", "not", "it"),
    ]


def test_a_judgement_says_who_and_why() -> None:
    judge = lexical_judge()
    question = Question("q", "Which degree?", datetime(2023, 5, 30), "2023/05/30", "h")
    judgement = asyncio.run(judge.judge(question, gold("Law"), "Law."))
    assert (judgement.label, judgement.raw) == (True, "contains the answer")
    assert (judgement.judge_id, judgement.answer_sha256) == (judge.identity.id, sha256_text("Law."))
    assert (judgement.usage, judgement.served_model, judgement.prompt_sha256) == (Usage(), "", "")


def test_labels_of_an_earlier_version_are_called_that_and_never_made_again() -> None:
    now = lexical_judge().identity
    before = structs.replace(
        now, id="offline-lexical-8e7ec198", templates="lexical rules v2", templates_sha256="5" * 64
    )
    assert (judge_name(now), judge_name(before)) == ("offline/lexical", "offline/lexical, lexical rules v2")
    stored = Judgement("q", False, "token F1 0.40", before.id, "", sha256_text("Oslo"))
    assert recomputed(before, stored, QUESTION, gold("Oslo"), "Oslo") is stored
    assert recomputed(now, stored, QUESTION, gold("Oslo"), "Oslo").label is True


def test_it_never_passes_for_the_official_judge() -> None:
    identity = lexical_judge().identity
    assert identity.official is False
    assert (identity.model, identity.templates) == ("offline/lexical", "lexical rules v5")
    assert identity.id.startswith("offline-lexical-")
    assert safe_name(identity.id) == identity.id


def agreement(half: str) -> tuple[float, float, float]:
    """Share of answers labelled as by hand, Cohen's kappa, and by how much the mean label is off."""
    cases = [case for case in LABELLED if case.half == half]
    labels = [
        grade(
            asked(case.question),
            Gold("q", case.question_type, case.gold, (), (), case.abstention),
            case.answer,
        ).label
        is True
        for case in cases
    ]
    share = sum(label is case.right for label, case in zip(labels, cases, strict=True)) / len(cases)
    ours, theirs = sum(labels) / len(cases), sum(case.right for case in cases) / len(cases)
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    return share, (share - chance) / (1 - chance), ours - theirs


@pytest.mark.slow
@pytest.mark.parametrize("half", ["tuned", "unseen"])
def test_it_agrees_with_labels_by_hand(half: str) -> None:
    share, kappa, off = agreement(half)
    assert share >= 0.92
    assert kappa >= 0.84
    assert abs(off) <= 0.03


NOTES = " ".join(
    f"On day {day} you told me about the {thing}, how long it took and what it cost, and asked me for advice on it."
    for day, thing in enumerate(["garden", "roof", "bicycle", "piano", "visit to Oslo", "new stove", "parcel", "lease"])
)


def test_of_a_long_answer_the_ends_count() -> None:
    assert grade(QUESTION, gold("Oslo"), f"It was Oslo. {NOTES}").label is True
    assert grade(QUESTION, gold("Oslo"), f"{NOTES} So it was Oslo.").label is True
    assert grade(QUESTION, gold("Oslo"), f"{NOTES} So it was Oslo. Would you like to hear more about it?").label is True
    assert grade(QUESTION, gold("Oslo"), NOTES).label is False


@pytest.mark.parametrize(
    ("question", "answer", "hypothesis", "correct"),
    [
        ("How many rings did I buy?", 3, "You bought 3 silver rings.", True),
        ("How many rings did I buy?", 3, "You bought 5 rings in the last 3 months.", False),
        ("How many rings did I buy?", 3, "1. a gold ring\n2. a silver ring\n3. an onyx ring\n\nSo you have 4.", False),
        ("How much did the trip cost?", "$1,200", "Roughly 1200 dollars", True),
        ("What is my limit?", "$400,000", "400k", True),
        ("When was it?", "February 1st", "On 2023/02/01.", True),
        ("When was it?", "1 February 2023", "On Feb 1.", True),
        ("When was it?", "1 February", "On February 11.", False),
        ("When do I get up?", "7:00 AM", "At seven in the morning", True),
        ("When do I get up?", "7:00 AM", "At 7 pm", False),
        ("How often do I go?", "twice a week", "2 times per week", True),
        ("How often do I go?", "every week", "Every other week", False),
        ("How long did it take?", "two weeks", "14 days", True),
        ("Which did I do first, the dishes or the laundry?", "the laundry", "The laundry, then the dishes.", True),
        ("Which did I do first, the dishes or the laundry?", "the laundry", "The dishes, then the laundry.", False),
        ("Which dishes do I like?", "soup, rice and dumplings", "Dumplings, soup and rice", True),
        ("Which dishes do I like?", "soup, rice and dumplings", "Soup and rice", False),
        ("In which order did I visit them?", "Rome, Bern, Oslo", "Rome, then Bern, then Oslo", True),
        ("In which order did I visit them?", "Rome, Bern, Oslo", "Oslo, Bern, Rome", False),
        ("Do I still work there?", "No, you left in May", "Yes, you do.", False),
        ("Do I still work there?", "No, you left in May", "No.", True),
        ("What was number 7 on the list?", "Number 7 was a whistle", "A whistle", True),
    ],
)
def test_what_is_asked_for_counts(question: str, answer: str | int, hypothesis: str, correct: bool) -> None:
    assert grade(asked(question), gold(answer), hypothesis).label is correct


@pytest.mark.parametrize(
    ("question", "answer", "hypothesis", "correct"),
    [
        ("What do I pay?", "£38", "Not £45 but £38.", True),
        ("What do I pay?", "£38", "Not £38 but £45.", False),
        ("What do I pay?", "£38", "You don't pay £38, you pay £45.", False),
        ("What do I pay?", "£38", "You used to pay £45 and now pay £38.", True),
        ("What do I pay?", "£38", "It was £38 before, and it is £45 now.", False),
        ("What did I pay?", "£38", "It was £38, and it is £45 now.", True),
        ("What is my best?", "49:35", "You improved from 52:10 to 49:35.", True),
        ("Where does she live?", "Oslo", "She moved from Oslo to Bergen.", False),
        ("Where does she live?", "Oslo", "She lives in Bergen instead of Oslo.", False),
        ("Where does she live?", "Oslo", "She no longer lives in Oslo.", False),
        ("What part do I sing?", "Tenor", "Tenor is not your part any more.", False),
        ("What part do I sing?", "Tenor", "Not alto any more: tenor.", True),
        ("What is the farthest place?", "Recife", "You have never reached anything farther than Recife.", True),
        ("When am I closed?", "Mondays", "You don't open on Mondays.", True),
        ("Why?", "She never went", "She never went.", True),
    ],
)
def test_what_is_denied_or_past_is_not_claimed(question: str, answer: str, hypothesis: str, correct: bool) -> None:
    assert grade(asked(question), gold(answer), hypothesis).label is correct


@pytest.mark.parametrize(
    ("question", "answer", "hypothesis", "correct"),
    [
        ("What do I pay?", "£38", "£45 and £38.", False),
        ("What do I pay a week?", "$44 a week", "$38 a week and $44 a week", False),
        ("How many bikes do I own?", "4", "Three or four bikes.", False),
        ("How long?", "9 days. 10 days (including the last day) is also acceptable.", "9 or 10 days", True),
        ("How many weeks?", "11", "77 days or 11 weeks", True),
        ("When do we open?", "11 May", "On 13 April or 11 May, depending on the inspector.", False),
        ("On which day do we meet?", "Thursdays", "On Tuesdays and Thursdays", False),
        ("On which days do we meet?", "Tuesdays and Thursdays", "On Thursdays and on Tuesdays", True),
        ("On which days do we meet?", "Mondays and Tuesdays", "On Sundays, Mondays and Tuesdays.", False),
        ("What is it made of?", "Pale quartz", "Either solid oak or pale quartz.", False),
        ("What is it made of?", "Pale quartz", "Oak and pale quartz.", False),
        (
            "What is it made of?",
            "Pale quartz",
            "You mentioned both oak and pale quartz. In the end, pale quartz.",
            True,
        ),
        ("Which team am I on?", "Search infrastructure", "On payments and on search infrastructure.", False),
        ("What is the place?", "Recife", "Tenerife and Recife.", False),
        ("Where did I study?", "Purdue", "You studied at Purdue and loved it.", True),
    ],
)
def test_of_several_values_none_is_claimed(question: str, answer: str, hypothesis: str, correct: bool) -> None:
    assert grade(asked(question), gold(answer), hypothesis).label is correct


@pytest.mark.parametrize(
    ("question", "hypothesis", "correct"),
    [
        ("What do I pay?", "It's cheaper by $129.", False),
        ("What do I pay?", "$129 less than your coworker.", False),
        ("What do I pay?", "It went up by $20 to $129.", True),
        ("How much more did I pay than he?", "$129 more than he did.", True),
        ("How much did it go up?", "It rose by $129.", False),
        ("By how much did it increase?", "It rose by $129.", True),
    ],
)
def test_a_difference_is_no_amount(question: str, hypothesis: str, correct: bool) -> None:
    assert grade(asked(question), gold("$129"), hypothesis).label is correct


@pytest.mark.parametrize(
    ("question", "answer", "hypothesis", "correct"),
    [
        ("When is it?", "3 March", "On the third of March", True),
        ("When is it?", "3 March", "3/3", True),
        ("When is it?", "15 November", "11/15", True),
        ("When is it?", "15 November", "15.11.2024", True),
        ("When is it?", "15 November", "15/12", False),
        ("When is it?", "March 3, 2024", "3/3/2023", False),
        ("How long is it?", "45 minutes", "Three quarters of an hour", True),
        ("How long is it?", "Ninety minutes", "An hour and a half", True),
        ("How long is it?", "40 minutes", "40 min", True),
        ("What is my best?", "49:35", "49 minutes and 35 seconds", True),
        ("What is my best?", "49:35", "49:10", False),
        ("What is my pace?", "19:30", "19 minutes and 30 seconds", True),
        ("What time does it start?", "7:00", "At 7 am", True),
        ("What time does it start?", "7:30 pm", "19:30", True),
        ("What time does it start?", "6:45", "Quarter to seven", True),
        ("How old is he?", "Seven", "He is 7 years old.", True),
        ("How far is it?", "45 km", "Forty-five kilometres", True),
        ("What share?", "Fifteen per cent", "15%", True),
        ("How much?", "$1,250", "One thousand two hundred and fifty dollars", True),
        ("How much?", "$1,250", "1.25k", True),
    ],
)
def test_other_spellings(question: str, answer: str, hypothesis: str, correct: bool) -> None:
    assert grade(asked(question), gold(answer), hypothesis).label is correct


def test_a_guess_after_a_refusal_claims_nothing() -> None:
    for answer in ("I have no record of that. I would guess Oslo.", "I can't find it; if I had to guess, Oslo."):
        assert grade(QUESTION, gold("Oslo"), answer).label is False
        assert grade(QUESTION, gold("You never said.", abstention=True), answer).label is False
    assert grade(QUESTION, gold("Oslo"), "I'm not sure, but I believe it is Oslo.").label is True


def test_a_number_of_days_may_be_off_by_one_where_the_official_prompt_says_so() -> None:
    question = asked("How many days passed?")
    for number, correct in (("17", True), ("18", True), ("19", True), ("20", False)):
        answer = f"{number} days passed."
        assert grade(question, gold("18 days", "temporal-reasoning"), answer).label is correct
        assert grade(question, gold("18 days"), answer).label is (number == "18")


def test_an_unanswerable_question_may_be_declined_last() -> None:
    answer = "You have a cat named Luna. A hamster hasn't been mentioned."
    assert grade(QUESTION, gold("You mentioned no hamster.", abstention=True), answer).label is True
    assert grade(QUESTION, gold("Luna"), answer).label is True


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The one of the Twenty-Five that cost $1,200", "the of the 25 that cost $1200"),
        ("3rd of May, 5:00 p.m.", "may 3rd, 5 pm"),
        ("Sept. 12", "september 12th"),
        ("2023-13-01", "2023-13-01"),
        ("one and a half hours, 20%, ninety-nine", "1.5 hours, 20 percent, 99"),
        ("£38 an hour, once a week for 2 months a year", "£38 per hour, once a week for 2 months a year"),
        ("three a day; on May 3 a week later", "3 every1day; on may 3rd a week later"),
    ],
)
def test_numbers_and_dates_in_one_spelling(text: str, plain: str) -> None:
    assert plain_quantities(text) == plain


@pytest.mark.thorough
@pytest.mark.parametrize("part", ["a, ", "1. ", "so ", "7 may ", "one ", "? ", "b or c ", "\n- "])
def test_no_answer_takes_long(part: str) -> None:
    assert growth(lambda size: grade(QUESTION, gold("7 days"), part * (size // len(part))), 8_000) < IN_PROPORTION
