"""A judge's reply that broke off: a verdict that was given counts, anything else is not evaluated."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.benchmarks.beam.judge import BeamJudge
from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.benchmarks.longmemeval.judge import LongMemEvalJudge, official_label
from longmemeval.judges.asking import gives_verdict
from longmemeval.judges.protocol import Judge
from longmemeval.judges.template_set import TemplateJudge, load_template_set
from longmemeval.judges.votes import VotingJudge, recomputed
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Gold, Judgement, Question
from tests.server import ModelServer

QUESTION = Question("q1", "Do I drink tea?", datetime(2023, 5, 30), "2023/05/30", "h")
GOLD = Gold("q1", "single-session-user", "Yes", (), (), False)

GIVEN = [
    *("Yes", "yes.", " Yes, the model's response contains", "**Yes**, it", "No, the response says yes", "No"),
    *(
        "Answer: no, because",
        "The answer is yes, since",
        '"Yes"\n\nThe',
        "No.\n<think>Or is it",
        "It is yes?</think>\n\nNo",
    ),
]
LACKING = [
    *("Okay, so I need to figure out", "The response", "Yes or no? The user", "Yes/No: the", "Is it yes", "Not"),
    *("Hmm, yes it could", "Sure. <think>Yes or", "I think it is yes", "Nothing in the", "Yesterday the user"),
]
EMPTY = ["<think> Yes or no? The user", "<Think>yes", "<|begin_of_thought|>yes", "[THINK]no", "◁think▷yes"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.choice = lambda body: {"finish_reason": "length"}
        yield running


def model(server: ModelServer) -> ChatModel:
    return load_chat_model("openai/judge", ModelOptions(server.url, timeout_s=10.0, max_attempts=1, max_wait_s=0.02))


def graded(server: ModelServer, judge: Judge, said: str, gold: Gold = GOLD) -> Judgement:
    server.responder = lambda body: said
    return asyncio.run(judge.judge(QUESTION, gold, "Tea."))


@pytest.mark.parametrize("reason", ["length", "content_filter", "pause_turn", "made_up"])
def test_any_reason_but_a_whole_reply_counts_as_cut(server: ModelServer, reason: str) -> None:
    server.choice = lambda body: {"finish_reason": reason}
    judgement = graded(server, LongMemEvalJudge(model(server)), "Okay, so yes or no")
    assert (judgement.label, judgement.cut, judgement.raw) == (None, reason, "Okay, so yes or no")
    assert reason in judgement.error


@pytest.mark.parametrize("said", GIVEN)
def test_a_verdict_that_was_given_is_read_as_officially(server: ModelServer, said: str) -> None:
    judge = LongMemEvalJudge(model(server))
    judgement = graded(server, judge, said)
    assert (judgement.label, judgement.error) == (official_label(judgement.raw), "")
    assert recomputed(judge.identity, judgement, QUESTION, GOLD, "Tea.") == judgement


@pytest.mark.parametrize("said", [*LACKING, *EMPTY])
def test_anything_else_is_not_evaluated(server: ModelServer, said: str) -> None:
    judge = LongMemEvalJudge(model(server))
    judgement = graded(server, judge, said)
    assert judgement.label is None
    assert "finish reason: length" in judgement.error
    invented = msgspec.structs.replace(judgement, label=True)
    if judgement.raw:
        assert recomputed(judge.identity, invented, QUESTION, GOLD, "Tea.").label is None


@pytest.mark.parametrize("said", [*GIVEN[:6], *LACKING])
def test_whole_replies_are_read_as_officially(server: ModelServer, said: str) -> None:
    server.choice = lambda body: {"finish_reason": "stop"}
    judgement = graded(server, LongMemEvalJudge(model(server)), said)
    assert judgement.label is official_label(judgement.raw)
    assert b'"cut"' not in msgspec.json.encode(judgement)


@pytest.mark.parametrize(
    ("templates", "said", "label"),
    [
        ("strict", "yes, it", True),
        ("strict", "It might be that yes", None),
        ("lenient", '{"reason": "It is", "label": "CORRECT", "x', True),
        ("lenient", '{"reason": "It is", "label": "CORR', None),
        ("convomem", "RIGHT, since", True),
        ("convomem", "The right answer is", None),
        ("convomem", "Wrong", False),
    ],
)
def test_template_sets_follow_the_same_rule(server: ModelServer, templates: str, said: str, label: bool | None) -> None:
    assert graded(server, TemplateJudge(load_template_set(templates), model(server)), said).label is label


def test_votes_that_were_cut_stay_without_a_label(server: ModelServer) -> None:
    replies = iter(["Yes, the", "The response", "Yes", "No", "No"])
    server.responder = lambda body: next(replies)
    judge = VotingJudge(LongMemEvalJudge(model(server)), 5)
    judgement = asyncio.run(judge.judge(QUESTION, GOLD, "Tea."))
    assert (judgement.label, sorted(map(str, judgement.vote_labels))) == (None, ["False"] * 2 + ["None"] + ["True"] * 2)
    assert recomputed(judge.identity, judgement, QUESTION, GOLD, "Tea.") == judgement


@pytest.mark.parametrize(
    ("said", "score"),
    [('{"score": 0.5, "reason": "It', 0.5), ('{"score": 0', None), ("The score of this", None), ('{"score": 1}', 1.0)],
)
def test_a_score_that_was_cut_is_none(server: ModelServer, tmp_path: Path, said: str, score: float | None) -> None:
    gold = BeamGold("q1", "preference", "", (), (), False, rubric=("It is tea.",))
    judgement = graded(server, BeamJudge(model(server), None, tmp_path, credit="paper", official=False), said, gold)
    assert (judgement.score, judgement.usage.calls) == (score, 1)
    assert bool(judgement.error) is (score is None)


@pytest.mark.parametrize(("text", "given"), [("A", True), ("(B)", True), ("A good", False), ('{"label":"A"}', True)])
def test_letters_are_verdicts(text: str, given: bool) -> None:
    assert gives_verdict(text) is given


def test_the_request_of_a_cut_judge_is_the_official_one(server: ModelServer) -> None:
    graded(server, LongMemEvalJudge(model(server)), "Yes")
    (sent,) = server.chat_requests
    body: dict[str, Any] = json.loads(sent.raw)
    assert {key: body[key] for key in ("max_tokens", "n", "temperature")} == {
        "max_tokens": 10,
        "n": 1,
        "temperature": 0,
    }
