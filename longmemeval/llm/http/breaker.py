"""A circuit breaker: the state of an endpoint, shared by all calls, so that a dead endpoint does not get thousands."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock

from longmemeval.core.http import LONGEST_REQUESTED_WAIT_S
from longmemeval.errors import EndpointDownError, ModelError, TransientModelError

OPENS_AFTER = 10
"""Consecutive failed attempts, of at least two calls, after which only one attempt at a time is made."""

FIRST_CONTACT_S = 5.0
"""Seconds after which an endpoint is given up if no connection was ever made: nothing was started there that could be
lost."""

_PARTS = 10
"""Divisor of the time until giving up: a probe gets at least one part, and pauses between probes grow up to one."""


class Breaker:
    """Lets attempts through while the endpoint answers; one at a time, as probes, while it does not.

    Only transient errors count as failures: 429, 5xx, a time-out, a lost connection, a reply that is not JSON. Anything
    else shows that the endpoint is alive. Failures of one call alone may be the fault of its request: they end only
    that call.

    Args:
        where: the endpoint, for messages.
        give_up_after_s: seconds of failures without a success after which no more requests are sent. A longer wait that
            the server asks for (`Retry-After`) is honoured. FIRST_CONTACT_S if no connection could be made so far.
    """

    def __init__(self, where: str, give_up_after_s: float) -> None:
        self._where = where
        self._give_up_after_s = give_up_after_s
        self._lock = Lock()
        self._waiting: set[object] = set()
        self._probe: object = None
        self._last_probe: object = None
        self._down: EndpointDownError | None = None
        self._is_known = False
        self._succeeded_at = -math.inf
        self._failing_since = math.inf
        self._failed_at = -math.inf
        self._failures = 0
        self._waited_enough = False
        self._failing_calls: set[object] = set()
        self._probes = 0
        self._next_probe_at = 0.0
        self._paused_until = 0.0
        self._last_failure = ""
        self._sent = 0
        self._held = 0
        self._held_since = 0.0

    @property
    def is_open(self) -> bool:
        """True if only probes are made."""
        return self._failures >= OPENS_AFTER and len(self._failing_calls) > 1

    @property
    def ends_call(self) -> bool:
        """True if one call alone has failed for too long; if several have, the endpoint is given up instead."""
        return self._waited_enough and len(self._failing_calls) == 1

    @property
    def _is_hopeless(self) -> bool:
        """True if there has been no success for so long that no call should be tried again."""
        now = time.monotonic()
        return now >= self._failing_since + self._patience_s and now >= self._paused_until

    @property
    def _patience_s(self) -> float:
        """Seconds of failures after which no more requests are sent."""
        return self._give_up_after_s if self._is_known else min(self._give_up_after_s, FIRST_CONTACT_S)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Enclose a wait caused by our own limit: while no request is in progress, its time does not count here.

        Once only probes are made, it counts: however few of them a limit allows, they come to an end.

        Raises:
            EndpointDownError: the endpoint is given up; no call needs to wait for a turn.
        """
        if self._down:
            raise self._down
        self._moved(held=1)
        try:
            yield
        finally:
            self._moved(held=-1)

    def _moved(self, *, held: int = 0, sent: int = 0) -> None:
        """Count a call that starts or stops waiting for a turn or being sent."""
        with self._lock:
            now = time.monotonic()
            if self._held and not self._sent and not self.is_open:
                self._failing_since += now - self._held_since
            self._held_since = now
            self._held += held
            self._sent += sent

    @asynccontextmanager
    async def passage(self, call: object) -> AsyncIterator[float]:
        """Enclose one attempt: wait for its turn, and learn from its outcome.

        Args:
            call: the call that the attempt belongs to; compared by identity.

        Yields:
            The maximum number of seconds for the attempt; infinite while the endpoint answers.

        Raises:
            EndpointDownError: the endpoint is given up.
        """
        seconds = await self._turn(call)
        self._moved(sent=1)
        started = time.monotonic()
        try:
            yield seconds
        except TransientModelError as error:
            if down := self._failed(call, started, error):
                raise down from None
            raise
        except ModelError:
            self._succeeded()
            raise
        else:
            self._succeeded()
        finally:
            self._moved(sent=-1)
            if self._probe is call:
                self._probe = None

    async def _turn(self, call: object) -> float:
        self._waiting.add(call)
        try:
            while (seconds := self._allowed(call)) is None:
                await asyncio.sleep(min(0.1, self._give_up_after_s / 40))
            return seconds
        finally:
            self._waiting.discard(call)

    def _allowed(self, call: object) -> float | None:
        """Return the maximum seconds for an attempt that may be made now; None if it has to wait."""
        with self._lock:
            now = time.monotonic()
            if self._down:
                raise self._down
            if not self.is_open:
                return math.inf
            if self._probe is not None:
                return None
            # A requested wait is followed by one more attempt.
            if self._is_hopeless and self._failed_at >= self._paused_until:
                raise self._given_up()
            # Each probe is for another call, if there is any: a single request may itself be at fault.
            others = len(self._waiting) > 1
            if now < max(self._next_probe_at, self._paused_until) or (others and call is self._last_probe):
                return None
            self._probe = self._last_probe = call
            self._probes += 1
            # Half of the remaining time: if the endpoint recovers while a probe hangs, the next one notices.
            left = self._failing_since + self._give_up_after_s - now
            return max(left / 2, self._give_up_after_s / _PARTS)

    def _succeeded(self) -> None:
        with self._lock:
            self._is_known = True
            self._succeeded_at = time.monotonic()
            self._failing_since = math.inf
            self._failures = self._probes = 0
            self._waited_enough = False
            self._failing_calls.clear()

    def _failed(self, call: object, started: float, error: TransientModelError) -> EndpointDownError | None:
        """Count a failure; return the error to raise if it was one too many."""
        with self._lock:
            self._failed_at = now = time.monotonic()
            self._failing_since = min(self._failing_since, max(started, self._succeeded_at))
            self._failures += 1
            self._failing_calls.add(call)
            self._is_known |= not error.unreachable
            self._last_failure = error.what
            # Checked before the next wait that this failure requests.
            self._waited_enough = self._is_hopeless
            if self._waited_enough and len(self._failing_calls) > 1:
                return self._given_up()
            pause = min(2.0**self._probes, self._give_up_after_s / _PARTS)
            self._next_probe_at = now + pause
            requested = min(error.retry_after or 0.0, LONGEST_REQUESTED_WAIT_S)
            self._paused_until = max(self._paused_until, now + requested)
            return None

    def _given_up(self) -> EndpointDownError:
        seconds = time.monotonic() - self._failing_since
        if not self._is_known and self._give_up_after_s > FIRST_CONTACT_S:
            self._down = EndpointDownError(
                f"{self._where} cannot be reached: {self._failures} attempts, {seconds:,.0f} s. "
                f"The last: {self._last_failure}",
                fix="Check the network, the address (--api-base) and that the server is running, and rerun the same "
                "command",
            )
            return self._down
        self._down = EndpointDownError(
            f"{self._where} has returned nothing but failures for {seconds:,.0f} s ({self._failures} attempts in a "
            f"row). The last: {self._last_failure}",
            fix="Rerun the same command when it answers again; --give-up-after SECONDS waits longer",
        )
        return self._down
