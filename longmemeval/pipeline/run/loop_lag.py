"""Measure how much the harness's own load adds to measured latencies."""

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from longmemeval.statistics.intervals import percentile

_BEAT_S = 0.02
_TOLERATED = 0.05
"""Share of the median latency above which a run's latencies are reported as too high."""

_ROUNDS = 4
"""Rounds of the event loop that a call waits for: two to send its request, two to read its reply."""


class LoopLagMonitor:
    """A monitor of the running event loop: a task that should wake every 20 ms measures how late it wakes.

    A reply that arrives while the loop is busy waits to be read, and that wait is measured as the model's time.
    """

    def __init__(self) -> None:
        self.longest_block_s = 0.0
        self._due = 0.0
        self._started = (0.0, 0.0)
        self._used = (0.0, 0.0)
        self._waits_ms: list[float] = []
        self._latencies_ms: list[float] = []

    async def __aenter__(self) -> Self:
        self._started = (time.perf_counter(), time.process_time())
        self._due = time.perf_counter()
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._used = (time.perf_counter() - self._started[0], time.process_time() - self._started[1])

    async def _beat(self) -> None:
        while True:
            self._due = time.perf_counter() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self.longest_block_s = max(self.longest_block_s, time.perf_counter() - self._due)

    def answered(self, latency_ms: float) -> None:
        """Record an answer just received after calls of `latency_ms`, with the loop's present lag."""
        if latency_ms > 0:
            self._latencies_ms.append(latency_ms)
            self._waits_ms.append(max(0.0, time.perf_counter() - self._due) * 1000)

    def totals(self) -> dict[str, Any]:
        """Return the manifest's `load`; empty if no call was made."""
        seconds, processor = self._used
        if not self._latencies_ms or not seconds:
            return {}
        found = {
            "longest_block_ms": round(self.longest_block_s * 1000, 1),
            "added_p50_ms": round(self._added_ms(), 1),
            "processor_share": round(processor / seconds, 3),
        }
        return {"load": found | ({"note": self.note()} if self.note() else {})}

    def note(self) -> str:
        """Return a sentence if the latencies of a run are too high beyond tolerance; else empty."""
        latency, added = percentile(self._latencies_ms, 50), self._added_ms()
        if latency is None or added <= _TOLERATED * latency:
            return ""
        return (
            f"The latencies are too high: this process was so busy that calls had to wait, about {added:,.0f} of "
            f"{latency:,.0f} ms at the median; lower --concurrency or use a less busy machine"
        )

    def _added_ms(self) -> float:
        # No more than the latency itself: a call that waited longer was not in flight all the while.
        return min(_ROUNDS * (percentile(self._waits_ms, 50) or 0.0), percentile(self._latencies_ms, 50) or 0.0)
