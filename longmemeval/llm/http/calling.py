"""One call to a model: its turn, its account entry, and attempts until it is answered."""

import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from msgspec.structs import astuple

from longmemeval.errors import HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs.prices import price
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.http.breaker import Breaker
from longmemeval.llm.http.connections import one_at_a_time
from longmemeval.llm.http.destination import Destination
from longmemeval.llm.http.retry import call_with_retries
from longmemeval.llm.http.wire import Wire, watched
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates.book import TokenEstimate
from longmemeval.llm.rates.gate import Permit
from longmemeval.records import Usage

_SELDOM_ELSE = frozenset({"length", "content_filter"})
"""Finish reasons of empty replies that the same request usually gets again, at full cost each time."""
_ATTEMPTS_WHERE_SELDOM_ELSE = 2


class Answered(Protocol):
    """The result of an attempt."""

    @property
    def usage(self) -> Usage:
        """Tokens and cost."""
        ...

    @property
    def finish_reason(self) -> str:
        """The reason why the reply ended."""
        ...

    @property
    def is_empty(self) -> bool:
        """True if it has no content."""
        ...


R = TypeVar("R", bound=Answered)


class Caller:
    """Makes the calls of one model, which share the state of the endpoint (`Breaker`).

    Args:
        destination: endpoint of the calls.
        options: time-out and retries.
        account: records attempts; None: they are not recorded.
    """

    def __init__(self, spec: str, destination: Destination, options: ModelOptions, account: Account | None) -> None:
        self._spec, self._options, self._account = spec, options, account
        self._gate = destination.gate
        self._breaker = Breaker(destination.name, options.give_up_after_s)

    @property
    def counts_tokens(self) -> bool:
        """True if the size of a call must be known."""
        return self._account is not None or self._gate.counts_tokens

    async def call(self, send: Callable[[float, Permit], Awaitable[R]], size: TokenEstimate) -> "Called[R]":
        """Send until there is an answer or another attempt is useless.

        An empty reply is retried like a failure. One that stays empty is returned; the usage is that of all replies.

        Args:
            send: makes one attempt with a time limit in seconds, and passes the headers to the permit.
            size: tokens of the call, if they are needed.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
            EndpointDownError: no call to this endpoint has succeeded for too long.
            SpendingLimitError: the account has no room for the call.
        """
        call = _Call(size, (price(self._spec, *astuple(size)) or 0.0) if self._account else 0.0)
        reply, attempts = await call_with_retries(
            lambda: self._attempt(send, call),
            max_attempts=self._options.max_attempts,
            max_wait_s=self._options.max_wait_s,
            again=is_worth_another,
            breaker=self._breaker,
        )
        return Called(reply, call.usage, attempts, call.milliseconds)

    async def _attempt(self, send: Callable[[float, Permit], Awaitable[R]], call: "_Call") -> R:
        """Make one attempt, once it has its turn and its cost is reserved."""
        arrived = time.perf_counter()
        turn = await self._gate.turn(call.size, self._breaker.held_back)
        reserved = await self._account.reserve(call.most, self._spec) if self._account else ""
        cost, failed = 0.0, True
        try:
            await one_at_a_time()
            async with self._breaker.passage(call) as seconds:
                call.begin(arrived)
                cost = call.most
                try:
                    with watched() as wire:
                        try:
                            reply = await send(min(seconds, self._options.timeout_s), turn)
                        finally:
                            call.ended(wire)
                except HarnessError as error:
                    if isinstance(error, TransientModelError) and error.too_many:
                        turn.refused(error.retry_after)
                    cost = call.most if isinstance(error, ModelError) and error.may_be_billed else 0.0
                    raise
            failed = reply.is_empty
            cost = call.most if reply.usage.unpriced_calls else reply.usage.cost_usd
            turn.answered(reply.usage.prompt_tokens, reply.usage.completion_tokens)
        finally:
            if self._account:
                self._account.record_cost(reserved, cost, failed=failed)
        call.usage += reply.usage
        return reply


class Called(Generic[R]):
    """An answered call.

    Attributes:
        reply: the last reply.
        usage: usage of all replies.
        attempts: number of attempts.
        latency_ms: time since the first attempt was sent, without waiting for turns.
    """

    def __init__(self, reply: R, usage: Usage, attempts: int, latency_ms: float) -> None:
        self.reply, self.usage, self.attempts, self.latency_ms = reply, usage, attempts, latency_ms


class _Call:
    """A call in progress: the cost of its replies, and the time at which waiting for them began.

    Args:
        size: tokens of one attempt.
        most: upper bound of the cost of one attempt, US dollars.
    """

    def __init__(self, size: TokenEstimate, most: float) -> None:
        self.size, self.most = size, most
        self.usage = Usage()
        self._sent: float | None = None
        self._begun = 0.0

    def begin(self, arrived: float) -> None:
        """Record that an attempt, ready at `arrived`, is sent now; the wait in between is not the endpoint's."""
        self._begun = now = time.perf_counter()
        self._sent = now if self._sent is None else self._sent + (now - arrived)

    def ended(self, wire: Wire) -> None:
        """Record that an attempt is over.

        Our own computing before its request left and after its reply arrived is not the endpoint's time.
        """
        if self._sent is not None and wire.sent is not None:
            self._sent += wire.sent - self._begun
            self._sent += 0.0 if wire.replied is None else time.perf_counter() - wire.replied

    @property
    def milliseconds(self) -> float:
        """Time from the first request to the last reply, without waiting for turns and our own computing."""
        return 0.0 if self._sent is None else (time.perf_counter() - self._sent) * 1000


def is_worth_another(reply: Answered, attempts: int) -> bool:
    """Return whether a reply is empty and another attempt may get one that is not."""
    hopeless = reply.finish_reason in _SELDOM_ELSE and attempts >= _ATTEMPTS_WHERE_SELDOM_ELSE
    return reply.is_empty and not hopeless
