"""What is known of one model's limits under one key: what was used, by whom, and what the provider said."""

from collections.abc import Mapping

from msgspec import Struct, field

from longmemeval.llm.rates.headers import Told
from longmemeval.llm.rates.limits import Rate
from longmemeval.llm.rates.meter import Allowance, Meter

_LOWERED = 0.98
_LOWEST = 0.1
_LOWERED_AGAIN_AFTER = 1 / 12
"""Of a window; refusals that come together are one."""
_RECOVERED = 0.02
"""Share that comes back in each window without a refusal."""
_SEEN_LATELY_S = 0.3
_LONGEST_DEBT_S = 3600.0
_SMOOTHING = 0.1
KINDS = ("requests", "tokens")


class TokenEstimate(Struct, frozen=True):
    """How much a call may take of a limit on tokens."""

    prompt_tokens: int = 0
    longest_reply: int = 0
    """Tokens."""


class RateState(Struct):
    """The state of one model under one key, as it stands in a file between processes.

    Times are seconds since 1970: clocks of processes have no other zero in common.
    """

    requests: Meter = field(default_factory=Meter)
    tokens: Meter = field(default_factory=Meter)
    told: dict[str, float] = field(default_factory=dict)
    """Limits per minute by the provider's headers."""
    paused_until: float = 0.0
    """By `Retry-After`."""
    factor: float = 1.0
    """The share of the limits to use; lower after refusals that they do not explain."""
    lowered_at: float = 0.0
    reply_share: float = 1.0
    """How long replies are, as a share of how long they may be; the latest ones count most."""
    waiting: dict[str, float] = field(default_factory=dict)
    """Who waits for a turn, and when it was last seen to."""
    last: str = ""
    """Who had the last turn."""

    def allowance(self, kind: str, rate: Rate) -> Allowance | None:
        """The limit in force; None: none is known."""
        given = rate.rpm if kind == "requests" else rate.tpm
        known = [one for one in (given, self.told.get(kind) if rate.headers else None) if one]
        return Allowance(min(known), rate.window, self.factor) if known else None

    def is_limited(self, rate: Rate, now: float) -> bool:
        """Whether turns have to be taken."""
        return self.paused_until > now or any(self.allowance(kind, rate) for kind in KINDS)

    def expected(self, size: TokenEstimate) -> dict[str, float]:
        """What a call will take, by kind."""
        return {"requests": 1.0, "tokens": size.prompt_tokens + self.reply_share * size.longest_reply}

    def wait(self, now: float, amounts: Mapping[str, float], rate: Rate) -> float:
        """Seconds until a call may be sent; 0: now."""
        self._recover(now, rate)
        waits = [self.pause(now)]
        for kind, meter in self._meters().items():
            # A clock that was set back would have everybody wait.
            meter.paid_until = min(meter.paid_until, now + _LONGEST_DEBT_S)
            if allowance := self.allowance(kind, rate):
                waits.append(meter.wait(now, amounts[kind], allowance))
        return max(waits)

    def pause(self, now: float) -> float:
        """Return for how many seconds the provider asked to be left alone."""
        return max(0.0, self.paused_until - now)

    def is_anothers(self, now: float, who: str) -> bool:
        """Whether somebody else waits too, and should have the next turn since `who` had the last."""
        self.waiting = {one: seen for one, seen in self.waiting.items() if now - seen < _SEEN_LATELY_S} | {who: now}
        return self.last == who and len(self.waiting) > 1

    def use(self, now: float, amounts: Mapping[str, float], rate: Rate, who: str) -> None:
        """A call is sent."""
        self.last = who
        self.waiting.pop(who, None)
        for kind, meter in self._meters().items():
            meter.use(now, amounts[kind], self.allowance(kind, rate) or _unlimited(rate))

    def merge(self, other: "RateState") -> None:
        """Take in what was used before this book was shared."""
        self.told = other.told | self.told
        self.paused_until = max(self.paused_until, other.paused_until)
        for kind, meter in self._meters().items():
            meter.merge(other._meters()[kind])

    def answered(self, then: float, size: TokenEstimate, expected: float, used: tuple[int, int], rate: Rate) -> None:
        """A call was answered.

        Args:
            then: it was sent.
            size: it might have had.
            expected: tokens it was taken to use.
            used: tokens of its prompt and of its reply.
            rate: the limits.
        """
        if size.longest_reply:
            self.reply_share += _SMOOTHING * (min(1.0, used[1] / size.longest_reply) - self.reply_share)
        self.tokens.correct(then, sum(used) - expected, self.allowance("tokens", rate) or _unlimited(rate))

    def learn(self, now: float, then: float, found: Mapping[str, Told], rate: Rate) -> None:
        """Take in the headers of a reply to what was sent at `then`."""
        for kind, one in found.items() if rate.headers else ():
            if one.limit:
                self.told[kind] = one.limit * 60.0 / rate.window
            allowance, limit = self.allowance(kind, rate), one.limit or self.told.get(kind, 0.0) * rate.window / 60.0
            if allowance and limit and one.remaining is not None:
                spare = max(0.0, limit - allowance.in_window)
                self._meters()[kind].told(now, then, limit - one.remaining, spare, allowance)

    def refuse(self, now: float, retry_after: float | None, rate: Rate) -> None:
        """The provider refused a call, 429."""
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
    """For counting only."""
    return Allowance(1e12, rate.window)
