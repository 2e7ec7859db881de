"""A limit on spending: no call is begun that could exceed it, and what calls really cost is what counts."""

import asyncio

import pytest

from longmemeval.errors import FatalModelError, ModelError
from longmemeval.llm.offline import ExtractiveModel
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.spending import SparingChatModel, SpendingLimit, SpendingLimitError
from longmemeval.prices import price
from longmemeval.records import Usage

SPEC = "openai/gpt-4o-mini"
REQUEST = ChatRequest((ChatMessage("user", "one two three"),), max_tokens=100)


class Priced:
    """Answers at a fixed price, or fails."""

    def __init__(self, cost: float, spec: str = SPEC, *, fails: bool = False) -> None:
        self.spec = spec
        self.calls = 0
        self._cost = cost
        self._fails = fails

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        await asyncio.sleep(0)
        if self._fails:
            raise ModelError("refused")
        return ChatReply("yes", "stop", Usage(calls=1, cost_usd=self._cost))


def most() -> float:
    cost = price(SPEC, 3, 100)
    assert cost is not None
    return cost


def test_calls_go_on_while_there_is_room_for_the_dearest_case() -> None:
    model = Priced(most() / 10)
    limit = SpendingLimit(most() * 1.15)
    sparing = SparingChatModel(model, limit)
    for _ in range(2):
        asyncio.run(sparing.complete(REQUEST))
    with pytest.raises(SpendingLimitError, match="with a higher --max-cost"):
        asyncio.run(sparing.complete(REQUEST))
    assert model.calls == 2
    assert limit.spent == pytest.approx(most() / 5)


def test_calls_under_way_are_counted_in_full() -> None:
    model = Priced(0.0)
    sparing = SparingChatModel(model, SpendingLimit(most() * 1.5))

    async def both() -> list[ChatReply | BaseException]:
        return await asyncio.gather(*(sparing.complete(REQUEST) for _ in range(2)), return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, ChatReply)
    assert isinstance(second, SpendingLimitError)


def test_a_failed_call_may_have_cost_everything() -> None:
    limit = SpendingLimit(10.0)
    sparing = SparingChatModel(Priced(0.0, fails=True), limit)
    with pytest.raises(ModelError, match="refused"):
        asyncio.run(sparing.complete(REQUEST))
    assert limit.spent == pytest.approx(most())


def test_an_unknown_price_is_refused_before_any_call() -> None:
    with pytest.raises(FatalModelError, match="price of openai/my-own-model is not known"):
        SparingChatModel(Priced(0.0, "openai/my-own-model"), SpendingLimit(1.0))


def test_offline_models_need_no_money() -> None:
    sparing = SparingChatModel(ExtractiveModel(), SpendingLimit(0.0))
    assert asyncio.run(sparing.complete(REQUEST)).usage.cost_usd == 0.0
