"""Reasoning in a reply is kept apart from what it says; a verdict in reasoning alone is none."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest

from longmemeval.benchmarks.longmemeval.judge import LongMemEvalJudge
from longmemeval.judges.votes import VotingJudge, recomputed
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.thoughts import split_thoughts
from longmemeval.records import Answer, Gold, Judgement, Question
from tests.server import ModelServer

QUESTION = Question("q1", "Do I drink tea?", datetime(2023, 5, 30), "2023/05/30", "h")
GOLD = Gold("q1", "single-session-user", "Yes", (), (), False)
HARMONY = "<|channel|>analysis<|message|>Is it yes?<|end|><|start|>assistant<|channel|>final<|message|>No.<|return|>"


@pytest.mark.parametrize(
    ("text", "said", "reasoning"),
    [
        ("<think>Is it yes?</think>\n\nNo.", "No.", "Is it yes?"),
        ("Is it yes?\n</think>\n\nNo.", "No.", "Is it yes?"),  # The template of the prompt held the beginning.
        ("<thinking>a</thinking>yes<thinking>b</thinking> No.", "No.", "ayesb"),
        ("[THINK]Is it yes?[/THINK]No.", "No.", "Is it yes?"),
        (HARMONY, "No.", "Is it yes?"),
        ("analysisIs it yes?assistantfinalNo.", "No.", "Is it yes?"),
        ("<think>Is it yes", "", "Is it yes"),  # Cut at a limit of tokens.
        ("<|channel|>analysis<|message|>Is it yes", "", "Is it yes"),
        ("analysisIs it yes", "", "Is it yes"),
        ("No.\n<think>Or is it yes?</think>", "No.", "Or is it yes?"),
        ("<think></think>No.", "No.", ""),
    ],
)
def test_reasoning_is_taken_out_of_a_reply(text: str, said: str, reasoning: str) -> None:
    assert split_thoughts(text) == (said, reasoning)
    assert split_thoughts(text, "before")[1] == "\n\n".join(filter(None, ["before", reasoning]))


@pytest.mark.parametrize("text", ["yes", " Yes.\n", "", "analysis of tea: yes", "Write <think> first, then yes"])
def test_a_reply_without_reasoning_is_left_as_it_is(text: str) -> None:
    assert split_thoughts(text) == (text, "")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def judge(server: ModelServer) -> LongMemEvalJudge:
    options = ModelOptions(server.url, timeout_s=10.0, max_attempts=1, max_wait_s=0.02)
    return LongMemEvalJudge(load_chat_model("openai/judge", options))


def graded(server: ModelServer, message: dict[str, Any]) -> Judgement:
    server.message = lambda body: message
    return asyncio.run(judge(server).judge(QUESTION, GOLD, "Tea."))


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>Is it yes?</think>No."},
        {"content": HARMONY.replace("No.", "No.")},
        {"content": "No.", "reasoning_content": "Is it yes?"},
        {"content": "No.", "reasoning": "Is it yes?"},
    ],
)
def test_a_verdict_is_read_after_the_reasoning(server: ModelServer, message: dict[str, Any]) -> None:
    judgement = graded(server, message)
    assert (judgement.label, judgement.raw, judgement.reasoning) == (False, "No.", "Is it yes?")
    again = recomputed(judge(server).identity, judgement, QUESTION, GOLD, "Tea.")
    assert again == judgement


@pytest.mark.parametrize("message", [{"content": "<think>yes"}, {"content": None, "reasoning_content": "yes"}])
def test_a_verdict_in_reasoning_alone_is_not_evaluated(server: ModelServer, message: dict[str, Any]) -> None:
    judgement = graded(server, message)
    assert (judgement.label, judgement.raw, judgement.reasoning) == (None, "", "yes")
    assert "is empty" in judgement.error


def test_votes_keep_the_reasoning_of_each(server: ModelServer) -> None:
    replies = iter(["<think>one</think>yes", "<think>two</think>no", "yes"])
    server.responder = lambda body: next(replies)
    judgement = asyncio.run(VotingJudge(judge(server), 3).judge(QUESTION, GOLD, "Tea."))
    assert judgement.label is True
    assert sorted(judgement.reasoning.split("\n\n")) == ["one", "two"]


def test_lines_without_reasoning_have_no_such_field_and_read_as_before() -> None:
    answer, said = Answer("q", "Tea.", "ok"), Judgement("q", True, "yes", "j", "", "")
    for record in (answer, said):
        line = msgspec.json.encode(record)
        assert b"reasoning" not in line
        assert msgspec.json.decode(line, type=type(record)).reasoning == ""
    kept = msgspec.structs.replace(answer, shown_reasoning="why")
    assert msgspec.json.decode(msgspec.json.encode(kept), type=Answer).reasoning == "why"
    assert b'"reasoning":"why"' in msgspec.json.encode(kept)
