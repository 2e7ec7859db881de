"""A bounded number of workers over one queue of questions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from longmemeval.core.event_loop import take_turn
from longmemeval.errors import (
    BatchCancelledError,
    EmptyReplyError,
    HarnessError,
    ModelError,
    RecallError,
    SpendingLimitError,
    TransientModelError,
)
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest

T = TypeVar("T")

ENOUGH_FAILURES = 20
"""Failures of one kind, with no success, after which the rest is not tried."""


class AllFailedError(HarnessError):
    """Whatever was tried failed in the same way; something about the command, or at the endpoint, is wrong."""

    exit_code = 1


async def in_order(items: Sequence[T], work: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Do `work` for every question, plant and the like, started in order, at most `concurrency` under way.

    The first error ends all: work under way is cancelled and waited for, then the error is raised. After a
    SpendingLimitError, a BatchCancelledError or an AllFailedError nothing new is started, and what is under way is
    finished first.
    """
    waiting = enumerate(items)
    stopped: HarnessError | None = None

    async def worker(waiting: Iterator[tuple[int, T]]) -> None:
        nonlocal stopped
        for number, item in waiting:
            take_turn(number)
            # Work that never waits (offline models) would leave no moment in which an interrupt is noticed.
            await asyncio.sleep(0)
            if stopped:
                return
            try:
                await work(item)
            except (SpendingLimitError, BatchCancelledError, AllFailedError) as error:
                stopped = error

    tasks = [asyncio.create_task(worker(waiting)) for _ in range(min(concurrency, len(items)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if stopped:
        raise stopped


class Outcomes:
    """Ends work early of which all fails in the same way, once enough of it has failed and nothing succeeded.

    Args:
        succeeded: whether something of it has succeeded before.
        pieces: what the pieces of work are.
    """

    def __init__(self, succeeded: bool, pieces: str = "questions") -> None:
        self._succeeded = succeeded
        self._pieces = pieces
        self._failures: list[ModelError | RecallError] = []

    def add(self, failure: ModelError | RecallError | None) -> None:
        """Take in how one piece ended; None: well."""
        if failure is None:
            self._succeeded = True
        # What may pass is the breaker's to judge.
        elif not self._succeeded and not isinstance(failure, TransientModelError):
            self._failures.append(failure)

    def check(self) -> None:
        """Go on, or not.

        Raises:
            AllFailedError: there is no point in going on.
        """
        if self._succeeded or len(self._failures) < ENOUGH_FAILURES or len(set(map(type, self._failures))) > 1:
            return
        last = self._failures[-1]
        raise AllFailedError(
            f"The first {len(self._failures)} {self._pieces} failed in the same way and none was answered, so the rest "
            f"is not tried. The last: {last.what}",
            where=last.where,
            fix=last.fix,
        )


class WatchedChatModel:
    """Passes calls on to `model` and tells `outcomes` how each ended."""

    def __init__(self, model: ChatModel, outcomes: Outcomes) -> None:
        self._model = model
        self._outcomes = outcomes

    @property
    def spec(self) -> str:
        """The spec of the model behind."""
        return self._model.spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` as the model behind does; raises what it raises."""
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            self._outcomes.add(error)
            raise
        empty = EmptyReplyError(f"The reply is empty (finish reason: {reply.finish_reason})")
        self._outcomes.add(None if reply.text.strip() else empty)
        return reply
