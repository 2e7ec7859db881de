"""State of one model's limits under one key: usage, waiting processes, and limits that the provider reports."""

from collections.abc import Mapping

from msgspec import Struct, field

from longmemeval.llm.rates.headers import ReportedLimit
from longmemeval.llm.rates.limits import Rate
from longmemeval.llm.rates.meter import Allowance, Meter

_LOWERED = 0.98
_LOWEST = 0.1
_LOWERED_AGAIN_AFTER = 1 / 12
"""Share of a window within which several refusals count as one."""
_RECOVERED = 0.02
"""Share regained in each window without a refusal."""
_SEEN_LATELY_S = 0.3
_LONGEST_DEBT_S = 3600.0
_SMOOTHING = 0.1
KINDS = ("requests", "tokens")


class TokenEstimate(Struct, frozen=True):
    """Estimate of the tokens a call may use of a limit."""

    prompt_tokens: int = 0
    longest_reply: int = 0
    """Maximum number of tokens."""


class RateState(Struct):
    """The state of one model under one key, as stored in a file between processes.

    Times are seconds since 1970, the only zero that the clocks of several processes share.
    """

    requests: Meter = field(default_factory=Meter)
    tokens: Meter = field(default_factory=Meter)
    from_headers: dict[str, float] = field(default_factory=dict, name="told")
    """Limits per minute from the provider's headers."""
    paused_until: float = 0.0
    """End of the pause requested by `Retry-After`."""
    factor: float = 1.0
    """Share of the limits to use; lowered after refusals that the limits do not explain."""
    lowered_at: float = 0.0
    reply_share: float = 1.0
    """Length of replies as a share of their maximum; the latest replies weigh most."""
    waiting: dict[str, float] = field(default_factory=dict)
    """Time of the last check of each waiting caller."""
    last: str = ""
    """Caller that had the last turn."""

    def allowance(self, kind: str, rate: Rate) -> Allowance | None:
        """Return the limit in force; None if none is known."""
        configured = rate.rpm if kind == "requests" else rate.tpm
        known = [limit for limit in (configured, self.from_headers.get(kind) if rate.headers else None) if limit]
        return Allowance(min(known), rate.window, self.factor) if known else None

    def is_limited(self, rate: Rate, now: float) -> bool:
        """Return whether calls have to wait for turns."""
        return self.paused_until > now or any(self.allowance(kind, rate) for kind in KINDS)

    def expected(self, size: TokenEstimate) -> dict[str, float]:
        """Return the expected usage of a call, by kind."""
        return {"requests": 1.0, "tokens": size.prompt_tokens + self.reply_share * size.longest_reply}

    def wait(self, now: float, amounts: Mapping[str, float], rate: Rate) -> float:
        """Return the seconds until a call may be sent; 0 means now."""
        self._recover(now, rate)
        waits = [self.pause(now)]
        for kind, meter in self._meters().items():
            # Otherwise a clock that was set back would make every call wait.
            meter.paid_until = min(meter.paid_until, now + _LONGEST_DEBT_S)
            if allowance := self.allowance(kind, rate):
                waits.append(meter.wait(now, amounts[kind], allowance))
        return max(waits)

    def pause(self, now: float) -> float:
        """Return the remaining seconds of a pause that the provider asked for."""
        return max(0.0, self.paused_until - now)

    def should_yield(self, now: float, who: str) -> bool:
        """Record that `who` is waiting; return whether it had the last turn and should let another caller go first."""
        self.waiting = {caller: seen for caller, seen in self.waiting.items() if now - seen < _SEEN_LATELY_S} | {
            who: now
        }
        return self.last == who and len(self.waiting) > 1

    def use(self, now: float, amounts: Mapping[str, float], rate: Rate, who: str) -> None:
        """Record that a call is being sent."""
        self.last = who
        self.waiting.pop(who, None)
        for kind, meter in self._meters().items():
            meter.use(now, amounts[kind], self.allowance(kind, rate) or _unlimited(rate))

    def merge(self, other: "RateState") -> None:
        """Add the usage from before this state was shared."""
        self.from_headers = other.from_headers | self.from_headers
        self.paused_until = max(self.paused_until, other.paused_until)
        for kind, meter in self._meters().items():
            meter.merge(other._meters()[kind])

    def answered(self, then: float, size: TokenEstimate, expected: float, used: tuple[int, int], rate: Rate) -> None:
        """Correct the usage after a call has been answered.

        Args:
            then: time at which it was sent.
            size: estimated size of the call.
            expected: tokens that it was expected to use.
            used: tokens of its prompt and of its reply.
        """
        if size.longest_reply:
            self.reply_share += _SMOOTHING * (min(1.0, used[1] / size.longest_reply) - self.reply_share)
        self.tokens.correct(then, sum(used) - expected, self.allowance("tokens", rate) or _unlimited(rate))

    def learn(self, now: float, then: float, reported: Mapping[str, ReportedLimit], rate: Rate) -> None:
        """Update the limits from the headers of a reply to a call sent at `then`."""
        for kind, header in reported.items() if rate.headers else ():
            if header.limit:
                self.from_headers[kind] = header.limit * 60.0 / rate.window
            allowance, limit = (
                self.allowance(kind, rate),
                header.limit or self.from_headers.get(kind, 0.0) * rate.window / 60.0,
            )
            if allowance and limit and header.remaining is not None:
                spare = max(0.0, limit - allowance.in_window)
                self._meters()[kind].record_reported(now, then, limit - header.remaining, spare, allowance)

    def refuse(self, now: float, retry_after: float | None, rate: Rate) -> None:
        """Record that the provider refused a call with status 429."""
        self._recover(now, rate)
        self.paused_until = max(self.paused_until, now + (retry_after or 0.0))
        if now - self.lowered_at >= rate.window * _LOWERED_AGAIN_AFTER:
            self.factor, self.lowered_at = max(_LOWEST, self.factor * _LOWERED), now

    def _recover(self, now: float, rate: Rate) -> None:
        if self.factor < 1.0 and now - self.lowered_at >= rate.window:
            self.factor, self.lowered_at = min(1.0, self.factor + _RECOVERED), now

    def _meters(self) -> dict[str, Meter]:
        return {"requests": self.requests, "tokens": self.tokens}


def _unlimited(rate: Rate) -> Allowance:
    """Return an allowance without a limit, for counting only."""
    return Allowance(1e12, rate.window)
