"""LoCoMo's own score: the official functions' known answers, and whole files of answers to the real questions."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from statistics import fmean

import pytest

from longmemeval.benchmarks.locomo.format import NOT_MENTIONED
from longmemeval.benchmarks.locomo.judge import (
    LOCOMO_F1,
    abstention_phrase,
    choice,
    f1,
    f1_multi,
    grade,
    locomo_f1_judge,
    normalise,
    official_score,
    tokens,
)
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.core.files import safe_name, sha256_text
from longmemeval.errors import HarnessError
from longmemeval.records import Gold, Question, Usage
from tests.conftest import real_file

OPTIONS = (NOT_MENTIONED, "Self-care is important")


def question(options: tuple[str, ...] = ()) -> Question:
    return Question("conv-1/q0", "What?", datetime(2023, 5, 8), "8 May", "conv-1", options=options)


def gold(question_type: str, answer: str | int = "Oslo", trap: str | None = None) -> Gold:
    return Gold("conv-1/q0", question_type, answer, (), (), question_type == "adversarial", trap)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The Cat, and a Dog!", "cat dog"),
        ("more-or-less", "moreorless"),
        ("1,000", "1000"),
        ("  sand\tand\nan  anthem ", "sand anthem"),
        ("a an the and", ""),
        # Only ASCII marks go.
        ("don\u2019t", "don\u2019t"),
    ],
)
def test_normalised_text(text: str, normalised: str) -> None:
    assert normalise(text) == normalised


@pytest.mark.thorough
@pytest.mark.slow
def test_words_become_stems() -> None:
    assert tokens("Psychology, counseling certification") == ["psycholog", "counsel", "certif"]


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("Adoption agencies", "adoption agency", 1.0),
        ("7 May 2023", "May 7, 2023", 1.0),
        ("The sunday before 25 May 2023", "Sunday, 25 May 2023", 0.888889),
        ("", "", 0.0),
        ("a an the and", "", 0.0),
        ("mental health awareness", "mental health", 0.8),
        ("Charlotte's Web", "charlottes web", 1.0),
        ("running running", "run", 0.666667),
    ],
)
def test_f1(prediction: str, answer: str, expected: float) -> None:
    assert f1(prediction, answer) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("pottery, camping, painting, swimming", "Pottery, Camping", 1.0),
        ("pottery, camping", "pottery, camping, painting, swimming", 0.5),
        ("pottery and camping", "pottery, camping", 0.666667),
        ("Beach, mountains and forest", "beach, mountains, forest", 0.777778),
        ("", "pottery, camping", 0.0),
        ("pottery", "", 0.0),
    ],
)
def test_f1_of_lists(prediction: str, answer: str, expected: float) -> None:
    assert f1_multi(prediction, answer) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("reply", "abstains"),
    [
        ("It is Not Mentioned in the conversation.", True),
        ("NO INFORMATION AVAILABLE", True),
        ("Never mentioned", False),
        ("I don't know", False),
        ("", False),
    ],
)
def test_only_the_two_official_phrases_abstain(reply: str, abstains: bool) -> None:
    assert abstention_phrase(reply) is abstains


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("a", 0),
        (" A\n", 0),
        ("b", 1),
        ("c", 1),
        ("(a)", 0),
        ("(A) ", 0),
        ("(b)", 1),
        # The official rule in all its bluntness: three characters that are not "(a)".
        ("No.", 1),
        ("Yes", 1),
    ],
)
def test_short_replies_choose_an_option(reply: str, chosen: int) -> None:
    assert choice(reply, OPTIONS) == OPTIONS[chosen]


@pytest.mark.parametrize("reply", ["", "a)", "(a) Not mentioned", "  Self-care  "])
def test_other_replies_speak_for_themselves(reply: str) -> None:
    assert choice(reply, OPTIONS) == reply


@pytest.mark.parametrize(
    ("category", "answer", "prediction", "expected"),
    [
        ("multi-hop", "pottery, camping", "pottery", 0.5),
        # Not taken apart: the comma goes, one word of two is right.
        ("single-hop", "pottery, camping", "pottery", 2 / 3),
        ("temporal", "pottery, camping", "pottery", 2 / 3),
        ("open-domain", "pottery, camping", "pottery", 2 / 3),
        ("open-domain", "Likely no; since this one went badly", "likely no", 1.0),
        ("single-hop", "Likely no; since", "likely no", 0.8),
        ("temporal", 2022, "2022", 1.0),
        ("multi-hop", 3, "3", 1.0),
        ("adversarial", "ignored", "not mentioned", 1.0),
        ("adversarial", "ignored", "ignored", 0.0),
    ],
)
def test_the_category_decides_the_rule(category: str, answer: str | int, prediction: str, expected: float) -> None:
    assert official_score(category, answer, prediction) == pytest.approx(expected)


def test_types_of_other_benchmarks_are_refused() -> None:
    with pytest.raises(
        HarnessError, match="This judge grades LoCoMo, which has no question type 'temporal-reasoning'"
    ) as caught:
        asyncio.run(locomo_f1_judge().judge(question(), gold("temporal-reasoning"), "Oslo"))
    assert "conv-1/q0" in caught.value.where
    assert "Did you mean 'temporal'?" in caught.value.fix
    with pytest.raises(HarnessError, match="no question type 'single'"):
        official_score("single", "Oslo", "Oslo")


def test_partial_credit_is_no_right_answer() -> None:
    judge = locomo_f1_judge()
    judgement = asyncio.run(judge.judge(question(), gold("single-hop", "running"), "running running"))
    assert (judgement.label, judgement.score) == (False, 0.667)
    assert "0.667" in judgement.raw
    assert judgement.judge_id == judge.identity.id
    assert (judgement.question_id, judgement.answer_sha256) == ("conv-1/q0", sha256_text("running running"))
    assert (judgement.prompt_sha256, judgement.error, judgement.usage) == ("", "", Usage())


def test_full_credit_is_a_right_answer() -> None:
    verdict = grade(question(), gold("temporal", 2022), "In the 2022 and")
    assert (verdict.label, verdict.score) == (False, 0.667)
    full = grade(question(), gold("temporal", 2022), "the 2022.")
    assert (full.label, full.score) == (True, 1.0)


@pytest.mark.parametrize(
    ("options", "reply", "score"),
    [
        (OPTIONS, "a", 1.0),
        (OPTIONS, "(b)", 0.0),
        (OPTIONS[::-1], "(b)", 1.0),
        (OPTIONS[::-1], "a", 0.0),
        (OPTIONS, "(b) Not mentioned in the conversation", 1.0),
        (OPTIONS, "Self-care is important", 0.0),
        # Without options a letter is no answer.
        ((), "a", 0.0),
        ((), "That is not mentioned.", 1.0),
    ],
)
def test_an_adversarial_reply_is_read_by_the_options_offered(
    options: tuple[str, ...], reply: str, score: float
) -> None:
    adversarial = gold("adversarial", NOT_MENTIONED, "Self-care is important")
    verdict = grade(question(options), adversarial, reply)
    assert (verdict.label, verdict.score) == (score == 1, score)


def test_a_question_with_a_trap_is_adversarial_whatever_it_is_counted_as() -> None:
    counted = gold("open abstention", NOT_MENTIONED, "Self-care is important")
    assert grade(question(), counted, "That is not mentioned.").score == 1.0
    assert grade(question(), counted, "In the conversation").score == 0.0


def test_the_reason_says_which_option_was_chosen() -> None:
    verdict = grade(question(OPTIONS), gold("adversarial"), "b")
    assert "Self-care is important" in verdict.reason


def test_letters_are_options_of_adversarial_questions_alone() -> None:
    assert grade(question(OPTIONS), gold("single-hop", "b"), "b").score == 1.0


def test_identity_is_official_and_counts_f1() -> None:
    identity = locomo_f1_judge().identity
    assert (identity.model, identity.official, identity.metric) == (LOCOMO_F1, True, "F1")
    assert safe_name(identity.id) == identity.id
    assert len(identity.templates_sha256) == 64


@pytest.fixture(scope="module")
def real_locomo() -> LocomoDataset:
    return LocomoDataset(real_file("locomo10.json"))


Policy = Callable[[Question, Gold], str]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "by_type", "overall", "answerable"),
    [
        (lambda question, gold: str(gold.answer), "1.0000 1.0000 1.0000 0.9274 1.0000", "0.9965", "0.9955"),
        (lambda question, gold: NOT_MENTIONED, "0.0104 0.0046 0.0137 0.0229 1.0000", "0.2330", "0.0108"),
        (
            lambda question, gold: "No information available",
            "0.0011 0.0071 0.0016 0.0350 1.0000",
            "0.2280",
            "0.0044",
        ),
        (
            lambda question, gold: gold.trap or str(gold.answer),
            "1.0000 1.0000 1.0000 0.9274 0.0045",
            "0.7729",
            "0.9955",
        ),
        (lambda question, gold: "", "0.0000 0.0000 0.0000 0.0000 0.0000", "0.0000", "0.0000"),
        (lambda question, gold: question.text, "0.0459 0.0325 0.0115 0.0721 0.0000", "0.0294", "0.0379"),
    ],
    ids=["gold", "not mentioned", "no information", "trapped", "silence", "echo"],
)
def test_whole_file_gives_the_official_means(
    real_locomo: LocomoDataset, policy: Policy, by_type: str, overall: str, answerable: str
) -> None:
    scores: dict[str, list[float]] = {}
    for asked in real_locomo.questions():
        right = real_locomo.gold(asked.question_id)
        verdict = grade(asked, right, policy(asked, right))
        assert verdict.score is not None
        scores.setdefault(right.question_type, []).append(verdict.score)
    order = ("single-hop", "multi-hop", "temporal", "open-domain", "adversarial")
    assert " ".join(f"{fmean(scores[name]):.4f}" for name in order) == by_type
    assert f"{fmean(score for name in order for score in scores[name]):.4f}" == overall
    assert f"{fmean(score for name in order[:4] for score in scores[name]):.4f}" == answerable
