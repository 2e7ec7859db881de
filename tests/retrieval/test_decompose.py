import asyncio
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.records import Usage
from longmemeval.retrieval.decompose import (
    MAX_QUERIES,
    Decomposition,
    decompose,
    decompose_by_model,
    fuse_parts,
    shipped_prompt,
)
from longmemeval.words import content_words

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


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "What do the estimates from the electrician, the plumber and the plasterer add up to?",
            ["estimates electrician", "estimates plumber", "estimates plasterer"],
        ),
        (
            "How much did I spend on the oven, the fridge, and the new curtains in total?",
            ["spend oven", "spend fridge", "spend new curtains"],
        ),
        ("What exercises and sports has John done?", ["exercises John done", "sports John done"]),
        ("What did John buy or refurbish?", ["John buy", "John refurbish"]),
        ("How often did Jo and Ann plan to hike?", ["often Jo plan hike", "often Ann plan hike"]),
        ("What is the price of the car and the price of the bike?", ["price car", "price bike"]),
    ],
)
def test_listed_things_keep_what_is_said_of_all_of_them(question: str, parts: list[str]) -> None:
    assert decompose(question) == [question, *parts]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Which came first, the dentist or swimming lessons?", ["dentist", "swimming lessons"]),
        ("What did I do first: plant the tomatoes, or paint the fence?", ["plant tomatoes", "paint fence"]),
        ("Which is bigger, Oslo, Bergen or Tromsø?", ["bigger Oslo", "bigger Bergen", "bigger Tromsø"]),
    ],
)
def test_alternatives_after_a_comma(question: str, parts: list[str]) -> None:
    assert decompose(question) == [question, *parts]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("How many days between my trip to Rome and the concert?", ["trip Rome", "concert"]),
        ("How many days passed between the day I bought the tent and when we left?", ["bought tent", "left"]),
        ("How many weeks after my surgery did I start running?", ["surgery", "start running"]),
        ("How long had I been playing the guitar when I joined the band?", ["playing guitar", "joined band"]),
        ("Did I start yoga before or after I moved to Lyon?", ["start yoga", "moved Lyon"]),
    ],
)
def test_two_ends_of_a_span_of_time(question: str, parts: list[str]) -> None:
    assert decompose(question) == [question, *parts]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Where did Anna go in May and what did she buy there?",
            ["Where did Anna go in May", "Anna go May what did she buy there"],
        ),
        (
            "Which laptop did I buy, and how much did it cost?",
            ["Which laptop did I buy", "laptop buy how much did it cost"],
        ),
        ("Who mended the roof and who painted the door?", ["Who mended the roof", "who painted the door"]),
        (
            "Who mended the roof? Who painted the door and the windows?",
            ["Who mended the roof", "painted door", "painted windows"],
        ),
    ],
)
def test_clause_that_refers_back_gets_the_words_of_the_one_before(question: str, parts: list[str]) -> None:
    assert decompose(question) == [question, *parts]


@pytest.mark.parametrize(
    "question",
    [
        "What colour is my bike?",
        "When did Melanie go on a hike after the road trip?",
        "How many species have I seen since the start of August?",
        "How long did it take me to drive to Rome?",
        "I am planning a party. Which cake did I like?",
        "What did I buy and",
        "and",
        "?",
        "",
        "Did I say this or that?",
    ],
)
def test_question_about_one_thing_stays_alone(question: str) -> None:
    assert decompose(question) == [question]


def test_long_list_ends_at_the_limit_in_its_order() -> None:
    names = ["Anna", "Bob", "Carl", "Dora", "Emil", "Fritz", "Gina"]
    question = f"What did {', '.join(names[:-1])} and {names[-1]} bring?"
    assert decompose(question) == [question, *(f"{name} bring" for name in names[:5])]
    assert MAX_QUERIES == 6


_PIECES = """
    the a my and or , ; : ? between before after since when how many much days first which what did I Anna Rome oven
    fridge cost it there of for 's \u2019 - . 3.5 Ölofen
"""


@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(_PIECES.split()), max_size=25).map(" ".join)))
def test_any_text_gives_itself_first_and_parts_that_can_be_searched_for(question: str) -> None:
    whole, *parts = decompose(question)
    assert whole == question
    assert len(parts) != 1
    assert len(parts) < MAX_QUERIES
    assert all(content_words(part) for part in parts)
    assert len({part.casefold() for part in parts}) == len(parts)
    assert set(content_words(" ".join(parts))) <= set(content_words(question))


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
    assert "$question" in shipped_prompt()


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
