"""A hard limit on what model calls may cost: no call is begun that could exceed it."""

from longmemeval.errors import FatalModelError
from longmemeval.event_loop import in_thread
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.llm.registry import is_offline
from longmemeval.llm.tokens import token_counter
from longmemeval.prices import price


class SpendingLimitError(FatalModelError):
    """The next call could cost more than is left. What was finished is kept."""


class SpendingLimit:
    """What may be spent, shared by all models of one command.

    Args:
        dollars: the most that may be spent, US dollars.
        spent: what was spent before.
    """

    def __init__(self, dollars: float, spent: float = 0.0) -> None:
        self.dollars = dollars
        self.spent = spent
        self._reserved = 0.0

    def reserve(self, dollars: float) -> None:
        """Set aside what a call may cost.

        Raises:
            SpendingLimitError: what is spent and set aside leaves too little.
        """
        if self.spent + self._reserved + dollars > self.dollars:
            raise SpendingLimitError(
                f"The next call could cost {_shown(dollars)}; {_shown(self.spent)} of {_shown(self.dollars)} are spent "
                f"and {_shown(self._reserved)} are set aside for calls under way",
                fix="Give the same command with a higher --max-cost: it goes on from here",
            )
        self._reserved += dollars

    def settle(self, reserved: float, spent: float) -> None:
        """Replace what was set aside for a call by what it cost."""
        self._reserved -= reserved
        self.spent += spent


def _shown(dollars: float) -> str:
    """Four places, or two digits of an amount that they would show as nothing."""
    return f"${dollars:.4f}" if dollars == 0 or dollars >= 0.001 else f"${dollars:.2g}"


class SparingChatModel:
    """A chat model that begins no call for which the limit has no room. A failed call counts as if it had cost all.

    Args:
        model: the model; one of the harness itself costs nothing and is passed through.
        limit: what may be spent.

    Raises:
        FatalModelError: the model's price is not known, so nothing can be promised.
    """

    def __init__(self, model: ChatModel, limit: SpendingLimit) -> None:
        self._model = model
        self._limit = limit
        self._counter = token_counter(model.spec)
        if not is_offline(model.spec) and price(model.spec, 1, 1) is None:
            raise FatalModelError(
                f"The price of {model.spec} is not known, so --max-cost cannot hold",
                fix="Leave out --max-cost, or name a model with a known price",
            )

    @property
    def spec(self) -> str:
        """The spec of the model behind."""
        return self._model.spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request`.

        Raises:
            SpendingLimitError: it could cost more than is left.
        """
        if is_offline(self.spec):
            return await self._model.complete(request)
        tokens = request.prompt_tokens
        if tokens is None:
            tokens = await in_thread(self._tokens_of, request)
        most = price(self.spec, tokens, request.max_tokens) or 0.0
        self._limit.reserve(most)
        cost = most
        try:
            reply = await self._model.complete(request)
            cost = reply.usage.cost_usd
            return reply
        finally:
            self._limit.settle(most, cost)

    def _tokens_of(self, request: ChatRequest) -> int:
        return sum(self._counter.count(message.content) for message in request.messages)


def within(model: ChatModel, limit: SpendingLimit | None) -> ChatModel:
    """`model` bound to `limit`; as it is where there is none."""
    return model if limit is None else SparingChatModel(model, limit)
