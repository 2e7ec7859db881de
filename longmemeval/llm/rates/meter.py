"""Usage of a limit, and how long to wait before using more; no clock, no file, no waiting."""

from msgspec import Struct, field

_MARGIN, _LONGEST_MARGIN_S = 0.015, 0.5
"""Share and maximum by which our window is longer than the provider's: requests arrive less evenly than sent."""
_BINS = 240
"""Number of bins a window is divided into."""
_NOTED = 0.02
"""Share of a window from which usage by others is recorded."""
_SLACK, _SLACK_S, _MOST_SLACK = 1 / 60, 0.5, 1 / 4
"""Time that may be caught up after a pause: a sixtieth of a window, or half a second if that is more, but at most a
quarter of the window. Nothing is saved up beyond that, so there are no bursts."""


class Allowance(Struct, frozen=True):
    """A limit on one kind of use."""

    per_minute: float
    window_s: float = 60.0
    """Seconds over which the provider counts."""
    factor: float = 1.0
    """Share of the limit to use."""

    @property
    def each_s(self) -> float:
        """Seconds that one unit takes at an even pace."""
        return 60.0 / (self.per_minute * self.factor) * self.span_s / self.window_s

    @property
    def span_s(self) -> float:
        """Seconds of our own window, which is slightly longer."""
        return self.window_s + min(_MARGIN * self.window_s, _LONGEST_MARGIN_S)

    @property
    def slack_s(self) -> float:
        """Seconds that may be caught up after a pause."""
        return max(self.window_s * _SLACK, min(_SLACK_S, self.window_s * _MOST_SLACK))

    @property
    def in_window(self) -> float:
        """Amount that may be used in one window."""
        return self.per_minute * self.factor * self.window_s / 60.0


class Meter(Struct):
    """Usage of one limit. Times are seconds of any one clock.

    Two rules hold at once. The pace: each use is followed by a pause as long as it takes at the allowed rate (the
    generic cell rate algorithm, ITU-T I.371), which suits providers that refill a bucket continuously or count over
    seconds. The window: usage within one never exceeds the limit, which suits providers that count over a minute.
    """

    paid_until: float = 0.0
    """End of the pauses that follow all usage so far."""
    used: dict[int, float] = field(default_factory=dict)
    """Our own usage, by bin of time."""
    others: dict[int, float] = field(default_factory=dict)
    """Additional usage that the provider reports, by others with the same key, by bin of time."""

    def wait(self, now: float, amount: float, allowance: Allowance) -> float:
        """Return the seconds until `amount` may be used; 0 means now."""
        return max(0.0, self.paid_until - now, self._until_room(now, amount, allowance))

    def use(self, now: float, amount: float, allowance: Allowance) -> None:
        """Record a use."""
        start = max(self.paid_until, now - allowance.slack_s)
        self.paid_until = start + amount * allowance.each_s
        self._add(self.used, now, amount, allowance)

    def correct(self, then: float, difference: float, allowance: Allowance) -> None:
        """Correct the usage recorded at `then` by a difference."""
        self.paid_until += difference * allowance.each_s
        self._add(self.used, then, difference, allowance)

    def merge(self, other: "Meter") -> None:
        """Add usage that was counted separately."""
        self.paid_until = max(self.paid_until, other.paid_until)
        for mine, theirs in ((self.used, other.used), (self.others, other.others)):
            for bin, amount in theirs.items():
                mine[bin] = mine.get(bin, 0.0) + amount

    def record_reported(self, now: float, then: float, used: float, spare: float, allowance: Allowance) -> bool:
        """Record the total usage reported by the provider.

        Args:
            now: arrival of the reply.
            then: time its request was sent; later requests are not in the figure.
            used: usage by the provider's count.
            spare: the provider's limit minus ours.

        Returns:
            True if that is more usage than we knew of.
        """
        width = _width(allowance)
        known = sum(amount for bin, amount in self.used.items() if bin * width <= then) + sum(self.others.values())
        more = used - known - spare
        if more <= max(1.0, allowance.in_window * _NOTED):
            return False
        self._add(self.others, now, more, allowance)
        return True

    def _until_room(self, now: float, amount: float, allowance: Allowance) -> float:
        width, span = _width(allowance), allowance.span_s
        for kind in (self.used, self.others):
            for bin in [bin for bin in kind if (bin + 1) * width <= now - span]:
                del kind[bin]
        excess = sum(self.used.values()) + sum(self.others.values()) + amount - allowance.in_window
        wait = 0.0
        # A use larger than a whole window goes ahead when nothing else is in it.
        for bin in sorted({*self.used, *self.others}):
            if excess <= 1e-6:
                break
            excess -= self.used.get(bin, 0.0) + self.others.get(bin, 0.0)
            wait = (bin + 1) * width + span - now
        return wait

    def _add(self, kind: dict[int, float], then: float, amount: float, allowance: Allowance) -> None:
        newest = int(then // _width(allowance))
        kind[newest] = kind.get(newest, 0.0) + amount
        if len(kind) > 2 * _BINS:
            for bin in [bin for bin in kind if bin < newest - 2 * _BINS]:
                del kind[bin]


def _width(allowance: Allowance) -> float:
    return allowance.window_s / _BINS
