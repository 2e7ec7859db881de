"""The control models answer by their one rule, whatever is asked."""

import asyncio

import pytest

from longmemeval.judges.offline.refusal import abstains
from longmemeval.llm.offline import REFUSAL
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.registry import load_chat_model

PASSAGES = ("I moved to Oslo.", "My cat is Tom.", "My dog is Rex.")


def answer(spec: str, passages: tuple[str, ...] = PASSAGES, last_session: tuple[str, ...] = PASSAGES[1:]) -> str:
    request = ChatRequest(
        (ChatMessage("user", "?"),), 5, question="?", passages=passages, last_session=lambda: last_session
    )
    reply = asyncio.run(load_chat_model(spec).complete(request))
    assert (reply.served_model, reply.finish_reason, reply.usage.cost_usd) == (spec, "stop", 0)
    return reply.text


def test_each_has_its_rule() -> None:
    assert answer("offline/refuse") == REFUSAL
    assert answer("offline/parrot") == "I moved to Oslo.\nMy cat is Tom.\nMy dog is Rex."
    assert answer("offline/last-session") == "My cat is Tom.\nMy dog is Rex."


@pytest.mark.parametrize("spec", ["offline/refuse", "offline/parrot", "offline/last-session"])
def test_what_repeats_nothing_refuses(spec: str) -> None:
    assert abstains(answer(spec, (), ()))
