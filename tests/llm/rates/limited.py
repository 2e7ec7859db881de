"""What a server on the loopback lets through: requests and tokens within a window, or by a bucket."""

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.llm.rates.simulated import Server
from tests.server import Refusal


class Limited:
    """For `ModelServer.plan_for`: refuses with 429 what exceeds the limits, and tells what is left.

    Args:
        servers: what is counted, `requests` and `tokens`.
        tells: whether replies say what is left, and refusals how long to wait.
        now: the clock, in seconds.
    """

    def __init__(
        self, servers: dict[str, Server], *, tells: bool = True, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._servers, self._tells, self._now = servers, tells, now
        self._lock = threading.Lock()
        self.let_through: list[tuple[float, float]] = []
        """Times and tokens."""
        self.refused = 0

    def __call__(self, body: dict[str, Any]) -> Refusal | dict[str, str]:
        """A refusal, or headers for the reply."""
        tokens = float(sum(len(str(message["content"]).split()) for message in body["messages"]) + 2)
        amounts = {"requests": 1.0, "tokens": tokens}
        with self._lock:
            now = self._now()
            wait = max(server.take(now, amounts[kind]) for kind, server in self._servers.items())
            if wait:
                self.refused += 1
                return Refusal(429, retry_after=f"{wait:.3f}" if self._tells else None)
            self.let_through.append((now, tokens))
            left = {kind: server.limit - server.used for kind, server in self._servers.items()}
        if not self._tells:
            return {}
        return {
            f"x-ratelimit-{what}-{kind}": f"{value:.0f}"
            for kind, server in self._servers.items()
            for what, value in (("limit", server.limit), ("remaining", left[kind]))
        }

    @property
    def share_refused(self) -> float:
        return self.refused / (self.refused + len(self.let_through))

    @property
    def per_minute(self) -> tuple[float, float]:
        """Requests and tokens per minute, between the first and the last that were let through."""
        seconds = self.let_through[-1][0] - self.let_through[0][0]
        later = self.let_through[1:]
        return len(later) / seconds * 60, sum(tokens for _, tokens in later) / seconds * 60
