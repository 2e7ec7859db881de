"""A bounded number of workers over one queue of questions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from longmemeval.event_loop import take_turn
from longmemeval.records import Question


async def in_order(
    questions: Sequence[Question], work: Callable[[Question], Awaitable[None]], concurrency: int
) -> None:
    """Do `work` for every question, begun in order, at most `concurrency` under way.

    The first error ends all: work under way is cancelled and waited for, then the error is raised.
    """
    waiting = enumerate(questions)

    async def worker(waiting: Iterator[tuple[int, Question]]) -> None:
        for number, question in waiting:
            take_turn(number)
            # Work that never waits (offline models) would leave no moment in which an interrupt is noticed.
            await asyncio.sleep(0)
            await work(question)

    tasks = [asyncio.create_task(worker(waiting)) for _ in range(min(concurrency, len(questions)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
