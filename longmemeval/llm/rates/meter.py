"""What was used of a limit, and how long to wait before more may be used; no clock, no file, no waiting."""

from msgspec import Struct, field

_MARGIN, _LONGEST_MARGIN_S = 0.015, 0.5
"""By so much longer than the provider's window is ours: requests do not arrive as evenly as they were sent."""
_BINS = 240
"""Into so many a window is divided."""
_NOTED = 0.02
"""Of a window; what others use is taken note of from there."""
_SLACK, _SLACK_S, _MOST_SLACK = 1 / 60, 0.5, 1 / 4
"""What may be made up for after a pause: a sixtieth of a window, or half a second where that is more, but no more than
a quarter. Nothing is saved up beyond that, so there are no bursts."""


class Allowance(Struct, frozen=True):
    """A limit on one kind of use."""

    per_minute: float
    window_s: float = 60.0
    """Over how many seconds the provider counts."""
    factor: float = 1.0
    """The share of it to use."""

    @property
    def each_s(self) -> float:
        """Seconds that one unit takes at an even pace."""
        return 60.0 / (self.per_minute * self.factor) * self.span_s / self.window_s

    @property
    def span_s(self) -> float:
        """The window as it is kept."""
        return self.window_s + min(_MARGIN * self.window_s, _LONGEST_MARGIN_S)

    @property
    def slack_s(self) -> float:
        """Seconds that may be made up for."""
        return max(self.window_s * _SLACK, min(_SLACK_S, self.window_s * _MOST_SLACK))

    @property
    def in_window(self) -> float:
        """What may be used in one window."""
        return self.per_minute * self.factor * self.window_s / 60.0


class Meter(Struct):
    """What was used of one limit. Times are seconds of any one clock.

    Two rules hold at once. The pace: each use is followed by a pause as long as it takes at the allowed rate (the
    generic cell rate algorithm, ITU-T I.371), which suits providers that refill a bucket all the time or count over
    seconds. The window: what was used within one never exceeds the limit, which suits those that count over a minute.
    """

    paid_until: float = 0.0
    """When the pauses after everything used so far are over."""
    used: dict[int, float] = field(default_factory=dict)
    """By bin of time: what was used through us."""
    others: dict[int, float] = field(default_factory=dict)
    """Likewise: what the provider says was used beyond that, by others with the same key."""

    def wait(self, now: float, amount: float, allowance: Allowance) -> float:
        """Seconds until `amount` may be used; 0: now."""
        return max(0.0, self.paid_until - now, self._until_room(now, amount, allowance))

    def use(self, now: float, amount: float, allowance: Allowance) -> None:
        """Take note of a use."""
        begun = max(self.paid_until, now - allowance.slack_s)
        self.paid_until = begun + amount * allowance.each_s
        self._add(self.used, now, amount, allowance)

    def correct(self, then: float, difference: float, allowance: Allowance) -> None:
        """What was used at `then` was more than was thought, or less."""
        self.paid_until += difference * allowance.each_s
        self._add(self.used, then, difference, allowance)

    def merge(self, other: "Meter") -> None:
        """Take in what was counted apart."""
        self.paid_until = max(self.paid_until, other.paid_until)
        for mine, theirs in ((self.used, other.used), (self.others, other.others)):
            for bin, amount in theirs.items():
                mine[bin] = mine.get(bin, 0.0) + amount

    def told(self, now: float, then: float, used: float, spare: float, allowance: Allowance) -> bool:
        """The provider says how much was used in all.

        Args:
            now: the reply has come.
            then: its request was sent; what was sent later is not in the figure.
            used: by the provider's count.
            spare: by how much its limit is above ours.
            allowance: the limit.

        Returns:
            Whether that is more than is known here.
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
        # What is larger than a window by itself goes when nothing else is in it.
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
