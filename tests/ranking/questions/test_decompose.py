import asyncio
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.text.words import content_words
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.ranking.questions import MAX_QUERIES, Decomposition, decompose_by_model, decompose_prompt, fuse_parts
from longmemeval.records import Usage

QUESTION = "What did Anna buy in Rome and what did she eat there?"


class Scripted:
    """A chat model with one reply."""

    spec = "test/scripted"

    def __init__(self, reply: str | Exception) -> None:
        self._reply = reply
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if isinstance(self._reply, Exception):
            raise self._reply
        return ChatReply(self._reply, "stop", Usage(calls=1, prompt_tokens=10, cost_usd=0.5))


def by_model(reply: str) -> Decomposition:
    return asyncio.run(decompose_by_model(Scripted(reply), QUESTION))


NAMED = st.one_of(st.text(max_size=30), st.sampled_from(["the", "Anna food", "anna  Food", QUESTION]))


@pytest.mark.slow
@given(st.lists(NAMED, max_size=9))
def test_any_parts_give_the_question_first_and_what_can_be_searched_for(named: list[str]) -> None:
    whole, *parts = by_model(json.dumps(named)).queries
    assert whole == QUESTION
    assert len(parts) != 1
    assert len(parts) < MAX_QUERIES
    assert all(content_words(part) for part in parts)
    assert len({part.casefold() for part in (whole, *parts)}) == 1 + len(parts)
    assert {part.split()[0] for part in parts} <= {text.split()[0] for text in named if text.split()}


def test_model_names_the_parts() -> None:
    model = Scripted('Here you are:\n```json\n["Anna shopping  Rome", "Anna food Rome"]\n```')
    found = asyncio.run(decompose_by_model(model, QUESTION))
    assert found.queries == [QUESTION, "Anna shopping Rome", "Anna food Rome"]
    assert found.problem == ""
    assert found.usage.cost_usd == 0.5
    (request,) = model.requests
    (message,) = request.messages
    assert message.content.endswith(f"Question: {QUESTION}\n")
    assert "at most 5 strings" in message.content


@pytest.mark.parametrize(
    "reply", ["[]", '["Anna bought and ate"]', '["", "the", "Anna food"]', f'["{QUESTION}", "Anna food"]']
)
def test_fewer_than_two_usable_parts_of_a_model_are_none(reply: str) -> None:
    assert by_model(reply) == Decomposition([QUESTION], Usage(calls=1, prompt_tokens=10, cost_usd=0.5))


@pytest.mark.parametrize(
    "reply", ["", "I cannot.", '{"queries": "Anna"}', '["Anna food", "Anna', "[1, 2]", "[" * 100_000]
)
def test_garbage_of_a_model_leaves_the_question_and_is_told(reply: str) -> None:
    found = by_model(reply)
    assert found.queries == [QUESTION]
    assert found.problem == "the model's reply holds no JSON list of texts"
    assert found.usage.calls == 1


def test_too_many_parts_of_a_model_end_at_the_limit() -> None:
    parts = ", ".join(f'"query {number}"' for number in range(9))
    assert by_model(f"[{parts}]").queries == [QUESTION, *(f"query {number}" for number in range(5))]


def test_prompt_of_ones_own_and_dollars_in_a_question() -> None:
    model = Scripted("[]")
    asyncio.run(decompose_by_model(model, "Did $5 or $limit buy it?", prompt="Split into $limit for $5: $question"))
    assert model.requests[0].messages[0].content == "Split into 5 for $5: Did $5 or $limit buy it?"
    assert "$question" in decompose_prompt()


def test_errors_of_the_model_pass_through() -> None:
    with pytest.raises(ModelError, match="refused"):
        asyncio.run(decompose_by_model(Scripted(ModelError("refused")), QUESTION))


def test_fused_score_is_the_whole_plus_the_weighted_best_part() -> None:
    whole = np.array([0.0, 4.0, 2.0])  # 0, 1, 1/2
    first = np.array([10.0, 30.0, 20.0])  # 0, 1, 1/2
    second = np.array([3.0, -1.0, -1.0])  # 1, 0, 0
    assert fuse_parts([whole, first, second]).tolist() == [0.5, 1.5, 0.75]
    assert fuse_parts([whole, first, second], weight=2.0).tolist() == [2.0, 3.0, 1.5]


def test_question_without_parts_keeps_its_ranking() -> None:
    scores = np.array([random.Random(3).uniform(-1, 1) for _ in range(50)])
    assert np.argsort(fuse_parts([scores])).tolist() == np.argsort(scores).tolist()


def test_no_units_have_no_scores() -> None:
    assert fuse_parts([np.zeros(0), np.zeros(0), np.zeros(0)]).shape == (0,)
