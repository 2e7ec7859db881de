"""A bounded number of workers over one queue of questions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from longmemeval.core.event_loop import set_priority
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
"""Number of failures of one kind, without any success, after which the rest is not tried."""


class AllFailedError(HarnessError):
    """Every attempt failed in the same way: something about the command, or at the endpoint, is wrong."""

    exit_code = 1


async def run_bounded(items: Sequence[T], work: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Do `work` for every item (question, plant, …), started in order, at most `concurrency` in progress.

    The first error ends everything: work in progress is cancelled and waited for, then the error is raised. After a
    SpendingLimitError, a BatchCancelledError or an AllFailedError nothing new is started, and what is in progress is
    finished first.
    """
    waiting = enumerate(items)
    stopped: HarnessError | None = None

    async def worker(waiting: Iterator[tuple[int, T]]) -> None:
        nonlocal stopped
        for number, item in waiting:
            set_priority(number)
            # Work that never waits (offline models) would leave no moment to notice an interrupt.
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
    """Outcomes of pieces of work; ends the work early if enough has failed in the same way and none succeeded.

    Args:
        succeeded: True if any of the work succeeded before.
        pieces: a plural noun for the pieces of work, for messages.
    """

    def __init__(self, succeeded: bool, pieces: str = "questions") -> None:
        self._succeeded = succeeded
        self._pieces = pieces
        self._failures: list[ModelError | RecallError] = []

    def add(self, failure: ModelError | RecallError | None) -> None:
        """Record the failure of one piece of work; None: it succeeded."""
        if failure is None:
            self._succeeded = True
        # The circuit breaker deals with transient errors.
        elif not self._succeeded and not isinstance(failure, TransientModelError):
            self._failures.append(failure)

    def check(self) -> None:
        """Raise if there is no point in going on.

        Raises:
            AllFailedError: enough has failed in the same way, and nothing succeeded.
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
    """A chat model that passes calls to `model` and records how each ended in `outcomes`."""

    def __init__(self, model: ChatModel, outcomes: Outcomes) -> None:
        self._model, self.spec = model, model.spec
        self._outcomes = outcomes

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` by the wrapped model; raises what it raises."""
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            self._outcomes.add(error)
            raise
        is_filled = bool(reply.text.strip())
        self._outcomes.add(
            None if is_filled else EmptyReplyError(f"The reply is empty (finish reason: {reply.finish_reason})")
        )
        return reply
