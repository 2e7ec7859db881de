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
ENOUGH_OF_A_CLASS = 3
"""The same for a class of the user: its code fails in the same way at every question."""


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
                stopped = stopped or error

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
        own_class: name of the user's class that is asked first at each piece of work; empty: there is none.
        most: number of pieces.
    """

    def __init__(self, succeeded: bool, pieces: str = "questions", *, own_class: str = "", most: int = 0) -> None:
        self._succeeded = succeeded
        self._pieces = pieces
        self._own_class, self._most = own_class, most
        self._failures: list[ModelError | RecallError] = []
        self._names: list[str] = []

    def add(self, failure: ModelError | RecallError | None, name: str = "") -> None:
        """Record the failure of one piece of work; None: it succeeded.

        Args:
            name: what the piece is called in messages.
        """
        if failure is None:
            self._succeeded = True
            return
        if not isinstance(failure, RecallError):
            self._own_class = ""  # It did its work here.
        # The circuit breaker deals with transient errors.
        if not self._succeeded and not isinstance(failure, TransientModelError):
            self._failures.append(failure)
            self._names.append(name)

    @property
    def tries_class(self) -> bool:
        """True if nothing shows yet that the user's class works."""
        return bool(self._own_class) and not self._succeeded

    def check(self) -> None:
        """Raise if there is no point in going on.

        Raises:
            AllFailedError: enough has failed in the same way, and nothing succeeded. If a class of the user failed, its
                exception is the cause.
        """
        if self._succeeded:
            return
        self._check_class()
        if len(self._failures) < ENOUGH_FAILURES or len(set(map(type, self._failures))) > 1:
            return
        last = self._failures[-1]
        raise AllFailedError(
            f"The first {len(self._failures)} {self._pieces} failed in the same way and none was answered, so the rest "
            f"is not tried. The last: {last.what}",
            where=last.where,
            fix=last.fix,
        )

    def _check_class(self) -> None:
        """Raise if the user's class has failed at each of the first pieces of work, or at all if they are fewer."""
        failed = len(self._failures)
        if not self._own_class or failed < min(ENOUGH_OF_A_CLASS, self._most):
            return
        first, name = self._failures[0], self._names[0]
        which = f"the first {failed} {self._pieces}" if failed > 1 else f"the first of the {self._pieces}"
        raise AllFailedError(
            f"{self._own_class} failed at {which}, so the run stopped. At {name}: {first.what}",
            where=first.where,
            fix=first.fix or f"Correct {self._own_class} and run again",
        ) from first.__cause__


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
        self._outcomes.add(None if is_filled else EmptyReplyError(f"The reply is empty ({reply.ending})"))
        return reply
