"""Mem0's two scores: known answers of its own functions, and what it leaves out."""

import asyncio
from datetime import datetime

import pytest

from longmemeval.benchmarks.locomo.judge import MEM0_BLEU1, MEM0_F1, bleu1, mem0_bleu1_judge, mem0_f1_judge, set_f1
from longmemeval.core.files import safe_name, sha256_text
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.rules import RuleJudge
from longmemeval.records import Gold, Question

QUESTION = Question("conv-1/q0", "What?", datetime(2023, 5, 8), "8 May", "conv-1")
JUDGES = [mem0_f1_judge(), mem0_bleu1_judge()]


def gold(question_type: str, answer: str | int = "adoption agency") -> Gold:
    return Gold("conv-1/q0", question_type, answer, (), (), False)


@pytest.mark.parametrize(
    ("prediction", "answer", "f1", "bleu"),
    [
        ("Adoption agencies", "adoption agency", 0.5, 0.5),
        ("May 7, 2023", "7 May 2023", 1.0, 0.75),
        ("mental health", "mental health awareness", 0.8, 0.606531),
        ("pottery and camping", "pottery, camping", 0.8, 0.666667),
        ("Charlotte's Web", "charlottes web", 0.5, 0.333333),
        ("run run", "run", 1.0, 0.5),
        ("the run", "run", 0.666667, 0.5),
        # The semicolon sticks to its word for F1 and is a word of its own for BLEU: brevity penalty exp(1 - 4/2).
        ("Likely no", "Likely no; since", 0.4, 0.367879),
        ("Oslo", "Bergen", 0.0, 0.0),
        ("", "Oslo", 0.0, 0.0),
        ("Oslo", "", 0.0, 0.0),
        ("", "", 0.0, 0.0),
        ("Oslo", "oslo", 1.0, 1.0),
    ],
)
def test_known_answers(prediction: str, answer: str, f1: float, bleu: float) -> None:
    assert set_f1(prediction, answer) == pytest.approx(f1, abs=5e-7)
    assert bleu1(prediction, answer) == pytest.approx(bleu, abs=5e-7)


@pytest.mark.parametrize("judge", JUDGES)
def test_label_is_full_credit(judge: RuleJudge) -> None:
    partial = asyncio.run(judge.judge(QUESTION, gold("single-hop"), "adoption agencies"))
    assert (partial.label, partial.error) == (False, "")
    assert partial.score == pytest.approx(0.5)
    assert (partial.judge_id, partial.answer_sha256) == (judge.identity.id, sha256_text("adoption agencies"))
    full = asyncio.run(judge.judge(QUESTION, gold("temporal", 2022), "2022"))
    assert (full.label, full.score) == (True, 1.0)


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("counted_as", ["adversarial", "open abstention"])
def test_adversarial_questions_are_not_evaluated(judge: RuleJudge, counted_as: str) -> None:
    adversarial = Gold("conv-1/q0", counted_as, "Not mentioned", (), (), True, trap="Oslo")
    judgement = asyncio.run(judge.judge(QUESTION, adversarial, "not mentioned"))
    assert (judgement.label, judgement.score, judgement.raw) == (None, None, "")
    assert "leaves adversarial questions out" in judgement.error


@pytest.mark.parametrize("judge", JUDGES)
def test_types_of_other_benchmarks_are_refused(judge: RuleJudge) -> None:
    with pytest.raises(
        HarnessError, match="This judge grades LoCoMo, which has no question type 'multi-session'"
    ) as caught:
        judge.grade(QUESTION, gold("multi-session"), "Oslo")
    assert "conv-1/q0" in caught.value.where


def test_identities_are_apart_and_not_official() -> None:
    f1, bleu = (judge.identity for judge in JUDGES)
    assert (f1.model, f1.metric, f1.official) == (MEM0_F1, "set-F1", False)
    assert (bleu.model, bleu.metric, bleu.official) == (MEM0_BLEU1, "BLEU-1", False)
    assert f1.id != bleu.id
    assert (safe_name(f1.id), safe_name(bleu.id)) == (f1.id, bleu.id)
