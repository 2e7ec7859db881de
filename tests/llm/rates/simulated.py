"""A provider and its callers in simulated time: no clock, no waiting, the same outcome each time."""

import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from longmemeval.llm.rates import Rate, RateState, ReportedLimit, TokenEstimate


@dataclass
class SlidingWindow:
    """So much in any window that ends now."""

    limit: float
    seconds: float = 60.0
    used: float = 0.0
    _taken: deque[tuple[float, float]] = field(default_factory=deque)

    def take(self, now: float, amount: float) -> float:
        """0 where it is let through, else seconds to wait."""
        while self._taken and self._taken[0][0] <= now - self.seconds:
            self.used -= self._taken.popleft()[1]
        if self.used + amount > self.limit:
            return max(1e-3, self._taken[0][0] + self.seconds - now) if self._taken else 1.0
        self._taken.append((now, amount))
        self.used += amount
        return 0.0


@dataclass
class TokenBucket:
    """A bucket that is refilled all the time."""

    limit: float
    seconds: float = 60.0
    used: float = 0.0
    _at: float = 0.0

    def take(self, now: float, amount: float) -> float:
        self.used = max(0.0, self.used - (now - self._at) * self.limit / self.seconds)
        self._at = now
        if self.used + amount > self.limit:
            return (self.used + amount - self.limit) * self.seconds / self.limit
        self.used += amount
        return 0.0


Server = SlidingWindow | TokenBucket


@dataclass
class Outcome:
    let_through: list[tuple[float, float]]
    """Times and tokens."""
    refused: int

    def share_refused(self) -> float:
        return self.refused / (self.refused + len(self.let_through))

    def per_minute(self, begin: float, end: float) -> tuple[float, float]:
        """Requests and tokens per minute that were let through between two times."""
        tokens = [tokens for at, tokens in self.let_through if begin <= at < end]
        return len(tokens) / (end - begin) * 60, sum(tokens) / (end - begin) * 60


def simulate(
    rate: Rate,
    servers: Mapping[str, Server],
    size: Callable[[random.Random], tuple[int, int, int]],
    *,
    minutes: float = 5.0,
    concurrency: int = 64,
    headers: bool = False,
    retry_after: bool = True,
    others_each_s: float = 0.0,
    network_s: float = 0.25,
) -> Outcome:
    """Callers under one book.

    Args:
        rate: as the user gives it.
        servers: what the provider counts, `requests` and `tokens`.
        size: draws a call: tokens of the prompt, longest reply, reply.
        minutes: how long.
        concurrency: callers.
        headers: whether the provider tells what is left.
        retry_after: whether a refusal tells how long to wait.
        others_each_s: requests per second by others with the same key.
        network_s: the longest way to the provider.
    """
    chance, book, begin = random.Random(5), RateState(), 1_000_000.0
    events: list[tuple[float, int, int, Callable[[float], None]]] = []
    numbers = iter(range(10**9))
    outcome = Outcome([], 0)

    def at(when: float, do: Callable[[float], None], order: int = 1) -> None:
        heapq.heappush(events, (when, order, next(numbers), do))

    waiting: deque[tuple[int, int, int]] = deque()

    def look(now: float) -> None:
        """The head of the queue looks at the book; there is one queue, as there is one event loop."""
        wait = 0.02
        if waiting:
            prompt, longest, _ = waiting[0]
            amounts = book.expected(TokenEstimate(prompt, longest))
            if not (wait := min(book.wait(now, amounts, rate), 0.1)):
                book.use(now, amounts, rate, "a")
                one = waiting.popleft()
                at(now + chance.uniform(0.01, network_s), lambda later: arrive(later, now, amounts["tokens"], one))
                wait = 0.0002
        at(now + wait + chance.expovariate(1000), look)

    def arrive(now: float, sent_at: float, expected: float, call: tuple[int, int, int]) -> None:
        prompt, longest, reply = call
        amounts = {"requests": 1.0, "tokens": float(prompt + reply)}
        # What one kind lets through and another refuses is not counted by either.
        waits = [server.take(now, amounts[kind]) for kind, server in servers.items()]
        if any(waits):
            outcome.refused += 1
            book.refuse(now, max(waits) if retry_after else None, rate)
            at(now + 0.5 + chance.random(), lambda later: waiting.append(call))
            return
        outcome.let_through.append((now - begin, amounts["tokens"]))
        told = {kind: ReportedLimit(server.limit, server.limit - server.used) for kind, server in servers.items()}

        def answered(later: float) -> None:
            book.answered(sent_at, TokenEstimate(prompt, longest), expected, (prompt, reply), rate)
            if headers:
                book.learn(later, sent_at, told, rate)
            waiting.append(size(chance))

        at(now + chance.uniform(0.5, 3.0), answered)

    def other(now: float) -> None:
        servers["requests"].take(now, 1.0)
        at(now + 1 / others_each_s, other)

    waiting.extend(size(chance) for _ in range(concurrency))
    at(begin, look)
    if others_each_s:
        at(begin, other)
    while events[0][0] < begin + minutes * 60:
        when, _, _, do = heapq.heappop(events)
        do(when)
    return outcome
