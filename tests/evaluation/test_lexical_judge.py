import asyncio
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.evaluation.judges.lexical import grade, lexical_judge, normalise, token_f1
from longmemeval.files import safe_name, sha256_text
from longmemeval.records import Gold, Question, Usage


def gold(answer: str | int, question_type: str = "multi-session", abstention: bool = False) -> Gold:
    return Gold("q", question_type, answer, (), (), abstention)


@pytest.mark.parametrize(
    ("answer", "hypothesis", "correct"),
    [
        ("Business Administration", "You graduated in business administration.", True),
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
        # One word of two shared is F1 0.5, just enough: the rules compare words, not meaning.
        ("blue mug", "green mug", True),
        ("blue mug", "small green mug", False),
        ("A", "A", True),
        ("\N{SNOWMAN}", "You said so.", False),
        ("(555)", "555", True),
    ],
)
def test_answerable_questions(answer: str | int, hypothesis: str, correct: bool) -> None:
    assert grade(gold(answer), hypothesis).label is correct


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
    assert grade(gold("You did not mention it.", abstention=True), hypothesis).label is True
    assert grade(gold("hamster"), hypothesis).label is False


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
    assert grade(gold("You did not mention your hamster.", abstention=True), hypothesis).label is False


@given(
    st.one_of(st.text(), st.integers(), st.just("I don't know")), st.sampled_from(["x", "single-session-preference"])
)
def test_not_knowing_never_answers_an_answerable_question(answer: str | int, question_type: str) -> None:
    assert grade(gold(answer, question_type), "I don't know.").label is False


@given(st.text(), st.text(), st.booleans())
def test_any_text_can_be_graded(answer: str, hypothesis: str, abstention: bool) -> None:
    assert grade(gold(answer, abstention=abstention), hypothesis).label in (True, False)


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
    assert grade(gold(RUBRIC, "single-session-preference"), hypothesis).label is correct


def test_token_f1_by_hand() -> None:
    # 2 of 3 words are shared with an answer of 4: precision 2/3, recall 2/4, F1 = 4/7.
    assert token_f1(["b", "c", "x"], ["a", "b", "c", "d"]) == pytest.approx(4 / 7)
    assert token_f1(["b", "b"], ["b"]) == pytest.approx(2 / 3)
    assert token_f1([], []) == 0.0


def test_normalised_words() -> None:
    assert normalise("The cat's 1,300 twenty-five at 7:30, can't it?") == [
        *("cats", "1300", "20", "5", "at", "7:30", "can", "not", "it"),
    ]


def test_a_judgement_says_who_and_why() -> None:
    judge = lexical_judge()
    question = Question("q", "Which degree?", datetime(2023, 5, 30), "2023/05/30", "h")
    judgement = asyncio.run(judge.judge(question, gold("Law"), "Law."))
    assert (judgement.label, judgement.raw) == (True, "contains the answer")
    assert (judgement.judge_id, judgement.answer_sha256) == (judge.identity.id, sha256_text("Law."))
    assert (judgement.usage, judgement.served_model, judgement.prompt_sha256) == (Usage(), "", "")


def test_it_never_passes_for_the_official_judge() -> None:
    identity = lexical_judge().identity
    assert identity.official is False
    assert (identity.model, identity.templates) == ("offline/lexical", "lexical rules v2")
    assert identity.id.startswith("offline-lexical-")
    assert safe_name(identity.id) == identity.id
