"""Rate limits of providers in requests and tokens per minute, and turns for all calls with one key."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, ValidationError

from longmemeval.core.arguments import Options
from longmemeval.core.files import sha256_text
from longmemeval.core.http import ignore, note_wait
from longmemeval.core.journal import locked
from longmemeval.core.text_files import YamlText, load_yaml, read_text, reading
from longmemeval.errors import HarnessError, nearest

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Limits set by the user: requests and tokens per minute, for all models or by name.


class Rate(Struct, frozen=True):
    """The limits of one model under one key."""

    rpm: float | None = None
    """Requests per minute; None: no limit, unless the provider's headers give one."""
    tpm: float | None = None
    """Tokens per minute, of prompts and replies."""
    window: float = 60.0
    """Seconds over which the provider counts: 60 requests per minute over 1 second means one in each second."""
    headers: bool = True
    """True to keep limits from the provider's headers too, where they are lower."""

    def seconds(self, requests: float, tokens: float) -> float:
        """Return the least seconds that `requests` and `tokens` take; 0 if there is no limit."""
        return max(
            60.0 * requests / self.rpm if self.rpm else 0.0,
            60.0 * tokens / self.tpm if self.tpm else 0.0,
        )


class RateLimits(Options, frozen=True):
    """Rate limits of all models; hashable and picklable."""

    models: tuple[tuple[str, Rate], ...] = ()
    """Limits by name or pattern (`openai/*`); the first match counts."""
    otherwise: Rate = Rate()
    """Limits of all other models."""
    folder: Path | None = None
    """Folder in which processes share their usage; None: each process counts by itself."""

    def of(self, spec: str) -> Rate:
        """Return the limits of a model."""
        return next((rate for pattern, rate in self.models if fnmatchcase(spec, pattern)), self.otherwise)


# A file of limits (`--limits FILE`): YAML, explained in docs/rate-limits.md.


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSection(_Section):
    """Limits of one model, or of all whose names match a pattern; see `Rate`."""

    rpm: PositiveFloat | None = None
    tpm: PositiveFloat | None = None
    window: PositiveFloat = 60.0
    headers: bool = True


class ConcurrencySection(_Section):
    """Concurrent calls by stage; None: as --concurrency says."""

    answers: PositiveInt | None = None
    judge: PositiveInt | None = None
    questions: PositiveInt | None = None
    """Calls that analyse the questions."""
    memory: PositiveInt | None = None
    """Calls of external memory systems while they are searched."""

    def of_run(self, usual: int) -> dict[str, int]:
        """Return the calls in flight by stage, named as the options of `run`; `usual` where the file sets none."""
        return {
            "concurrency": self.answers or usual,
            "question_concurrency": self.questions or usual,
            "memory_concurrency": self.memory or usual,
        }


class LimitsFile(_Section):
    """The whole file."""

    models: dict[str, ModelSection] = {}
    """Limits by model name, as options name it, or by pattern, such as `openai/*`; the first match counts."""
    concurrency: ConcurrencySection = ConcurrencySection()


def read_limits(path: Path) -> LimitsFile:
    """Read a file of limits.

    Raises:
        HarnessError: it cannot be read or is invalid; names the field and the nearest valid name.
    """
    with reading("The limits file", path, "is not YAML"):
        document = load_yaml(read_text(path))
    try:
        return LimitsFile.model_validate(document or {})
    except ValidationError as error:
        problem = error.errors()[0]
        place = [str(step) for step in problem["loc"]]
        sections: dict[str, type[BaseModel]] = {"models": ModelSection, "concurrency": ConcurrencySection}
        fields = sections.get(place[0] if len(place) > 1 else "")
        unknown = problem["type"] == "extra_forbidden"
        raise HarnessError(
            "Unknown field in a limits file" if unknown else f"The value is not valid: {problem['msg']}",
            where=YamlText(path).place(*problem["loc"]),
            fix=nearest(place[-1], (fields or LimitsFile).model_fields)
            if unknown
            else "Write it like `models: {openai/gpt-4o: {rpm: 500, tpm: 30000}}`",
        ) from error


def rate_limits(content: LimitsFile, *, rpm: float | None, tpm: float | None, folder: Path | None) -> RateLimits:
    """Combine the limits of a file with those of options, which apply to models that the file does not name.

    Args:
        rpm: requests per minute.
        tpm: tokens per minute.
        folder: folder in which processes share their usage.
    """
    models = tuple((name, Rate(**section.model_dump())) for name, section in content.models.items())
    return RateLimits(models, Rate(rpm=rpm, tpm=tpm), folder)


# Limits of a provider, read from the headers of a reply.
#
# OpenAI's names (`x-ratelimit-limit-requests`, `-remaining-`, `-tokens`), which many providers use, and Anthropic's.
# Limits count per window, a minute unless the user says otherwise.

_NAMES = {
    "requests": ("x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"),
    "tokens": ("x-ratelimit-{}-tokens", "anthropic-ratelimit-tokens-{}"),
}
_FORWARDED = "llm_provider-"
"""LiteLLM's prefix for headers passed on unchanged."""


class ReportedLimit(Struct, frozen=True):
    """A limit of one kind, and what is left of it in the window; None if the headers do not say."""

    limit: float | None = None
    remaining: float | None = None


def reported_limits(headers: Mapping[str, object]) -> dict[str, ReportedLimit]:
    """Return the limits that headers report for `requests` and `tokens`; kinds they do not mention are absent."""
    plain = {str(name).lower().removeprefix(_FORWARDED): value for name, value in headers.items()}
    limits = {}
    for kind, names in _NAMES.items():
        limit, remaining = (
            next((number for name in names if (number := _number(plain, name.format(what), least)) is not None), None)
            for what, least in (("limit", 1.0), ("remaining", 0.0))
        )
        if limit is not None or remaining is not None:
            limits[kind] = ReportedLimit(limit, remaining)
    return limits


_MOST = 1e12
"""A limit above this is none: no provider means it."""


def _number(headers: Mapping[str, object], name: str, least: float) -> float | None:
    if (value := headers.get(name)) is None:
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if least <= number < _MOST:
        return number
    ignore(name, value)
    return None


# Usage of a limit, and how long to wait before using more; no clock, no file, no waiting.

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


# State of one model's limits under one key: usage, waiting processes, and limits that the provider reports.

_LOWERED = 0.98
_LOWEST = 0.1
_LOWERED_AGAIN_AFTER = 1 / 12
"""Share of a window within which several refusals count as one."""
_RECOVERED = 0.02
"""Share regained in each window without a refusal."""
_SEEN_LATELY_S = 0.3
_LONGEST_DEBT_S = 3600.0
_LONGEST_PAUSE_S = 180.0
"""Longest pause by a server's number that is shared with other commands, which may find a healthy server."""
_CLOCKS_DIFFER_S = 5.0
"""Seconds by which the clocks of machines that share a file may differ."""
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
    empty_since: dict[str, float] = field(default_factory=dict)
    """Time of the first of the replies in a row that reported nothing left, by kind."""
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
            # A limit of the user's own is kept to, a provider's number is not believed for hours.
            longest = _LONGEST_DEBT_S if rate.rpm or rate.tpm else _LONGEST_PAUSE_S
            meter.paid_until = min(meter.paid_until, now + longest)
            if allowance := self.allowance(kind, rate):
                waits.append(meter.wait(now, amounts[kind], allowance))
        return max(waits)

    def pause(self, now: float) -> float:
        """Return the remaining seconds of a pause that the provider asked for."""
        return max(0.0, self.paused_until - now)

    def forget_future(self, now: float, rate: Rate) -> None:
        """Forget usage and pauses that lie ahead: the clock was set back, or an earlier version stored any number."""
        latest = max((bin for meter in self._meters().values() for bin in (*meter.used, *meter.others)), default=0)
        if latest * rate.window / _BINS > now + _CLOCKS_DIFFER_S:
            self.requests, self.tokens, self.waiting = Meter(), Meter(), {}
            self.paused_until, self.lowered_at = 0.0, now
        if self.pause(now) > _LONGEST_PAUSE_S + _CLOCKS_DIFFER_S:
            self.paused_until = 0.0

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
        if used[0] > self.from_headers.get("tokens", _MOST) * rate.window / 60.0:
            del self.from_headers["tokens"]  # A reply to more tokens than that disproves the limit.
        if size.longest_reply:
            self.reply_share += _SMOOTHING * (min(1.0, used[1] / size.longest_reply) - self.reply_share)
        self.tokens.correct(then, sum(used) - expected, self.allowance("tokens", rate) or _unlimited(rate))

    def learn(self, now: float, then: float, reported: Mapping[str, ReportedLimit], rate: Rate) -> None:
        """Update the limits from the headers of a reply to a call sent at `then`."""
        for kind, header in reported.items() if rate.headers else ():
            if header.remaining is None or header.remaining > 0:
                self.empty_since.pop(kind, None)
            elif then - self.empty_since.setdefault(kind, then) >= rate.window:
                ignore(f"the remaining {kind}", 0)  # After a whole window there would be some.
                header = ReportedLimit(header.limit)
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
        self.paused_until = max(self.paused_until, now + min(retry_after or 0.0, _LONGEST_PAUSE_S))
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


# Turns under a provider's limits: every call of a model with one key waits for its turn, in all processes.

_LOOK_S = 0.1
"""Longest time between two checks of a waiting call, since others may have used less than expected."""
_POLITE_S = 0.005
"""Seconds for which the caller with the last turn leaves the next one to others."""


class RateLimiter:
    """Turns of one model under one key. Safe across threads, event loops and processes.

    `gate_for` creates it, so that all calls of a process share one.

    Args:
        rate: the user's limits.
        path: file that processes share; None: this process counts alone.
        name: the model, for the progress line.
    """

    def __init__(self, rate: Rate, path: Path | None, name: str = "") -> None:
        self._rate, self._path, self._name = rate, path, name
        self._lock = threading.Lock()
        self._book = RateState()
        self._is_shared = False
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def counts_tokens(self) -> bool:
        """True if the tokens of a call must be known in advance."""
        return self._book.allowance("tokens", self._rate) is not None

    async def turn(
        self, size: TokenEstimate = TokenEstimate(), held_back: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> "Permit":
        """Wait until a call may be sent; calls of one event loop are sent in order of arrival.

        Args:
            size: estimated size of the call.
            held_back: entered while a limit makes the call wait, but not during a pause that the provider requested
                (`Retry-After`).

        Raises:
            HarnessError: the shared file cannot be written.
        """
        if not self._is_limited():
            return self._grant(size)
        loop = asyncio.get_running_loop()
        async with self._queues.setdefault(loop, asyncio.Lock()):
            attempt = _Attempt(f"{os.getpid()}-{id(loop)}")
            while wait := self._check(attempt, size):
                with held_back() if attempt.is_limited else nullcontext():
                    await asyncio.sleep(wait)
        return attempt.turn

    def turn_blocking(self, size: TokenEstimate = TokenEstimate()) -> "Permit":
        """Wait until a call may be sent, in synchronous code; see `turn`."""
        if not self._is_limited():
            return self._grant(size)
        attempt = _Attempt(f"{os.getpid()}-{threading.get_ident()}-thread")
        held_back_s = 0.0
        while wait := self._check(attempt, size):
            time.sleep(wait)
            held_back_s += wait if attempt.is_limited else 0.0
        attempt.turn.held_back_s = held_back_s
        return attempt.turn

    def answered(self, turn: "Permit", used: tuple[int, int]) -> None:
        """Record the tokens that a call used for its prompt and for its reply."""
        self._change(lambda book, now: book.answered(turn.sent_at, turn.size, turn.tokens, used, self._rate))

    def learn(self, turn: "Permit", headers: Mapping[str, object]) -> None:
        """Update the limits from the headers of a reply."""
        if found := reported_limits(headers):
            self._change(lambda book, now: book.learn(now, turn.sent_at, found, self._rate))

    def refuse(self, retry_after: float | None) -> None:
        """Record that the provider refused a call with status 429 and asked for a pause of `retry_after` seconds."""
        self._change(lambda book, now: book.refuse(now, retry_after, self._rate))

    def _is_limited(self) -> bool:
        if self._path and not self._is_shared and self._path.exists():
            self._change(lambda book, now: None)  # Another process may have learned of limits.
        with self._lock:
            return self._book.is_limited(self._rate, time.time())

    def _grant(self, size: TokenEstimate) -> "Permit":
        now = time.time()
        with self._lock:
            amounts = self._book.expected(size)
            self._book.use(now, amounts, self._rate, "")
        return Permit(self, now, amounts["tokens"], size)

    def _check(self, attempt: "_Attempt", size: TokenEstimate) -> float:
        """Return the seconds to wait until the next check; 0 if the turn was granted and recorded."""
        with self._open() as book:
            now, amounts = time.time(), book.expected(size)
            wait = book.wait(now, amounts, self._rate)
            note_wait(self._name, book.pause(now) if self._rate.rpm or self._rate.tpm else wait)
            attempt.is_limited = wait > book.pause(now)
            if book.should_yield(now, attempt.who) and not wait and not attempt.was_polite:
                attempt.was_polite = True
                return _POLITE_S
            if not wait:
                book.use(now, amounts, self._rate, attempt.who)
                attempt.turn = Permit(self, now, amounts["tokens"], size)
                return 0.0
        attempt.was_polite = False
        return min(wait, _LOOK_S)

    def _change(self, change: Callable[[RateState, float], None]) -> None:
        with self._open() as book:
            change(book, time.time())

    @contextmanager
    def _open(self) -> Iterator[RateState]:
        """Yield the state, locked against other threads and processes, and save it for them."""
        with self._lock:
            if self._path is None:
                self._book.forget_future(time.time(), self._rate)
                yield self._book
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with locked(self._path, wait=True):
                    book = _read(self._path)
                    book.forget_future(time.time(), self._rate)
                    if not self._is_shared:
                        book.merge(self._book)
                        self._is_shared = True
                    self._book = book
                    yield book
                    self._path.write_bytes(msgspec.json.encode(book))
            except OSError as error:
                raise HarnessError(
                    f"The file in which commands share a provider's limits cannot be written: {error.strerror}",
                    where=str(self._path),
                    fix="Fix this and rerun the same command: finished work is kept",
                ) from error


class _Attempt:
    """A caller waiting for a turn."""

    turn: "Permit"

    def __init__(self, who: str) -> None:
        self.who = who
        self.was_polite = False
        self.is_limited = False
        """True if a limit makes it wait longer than the pause that the provider asked for."""


class Permit:
    """Permission to send one call.

    Args:
        gate: the limiter that granted it.
        sent_at: seconds since 1970.
        tokens: expected usage.
        size: estimated size of the call.

    Attributes:
        held_back_s: seconds for which a limit made synchronous code wait.
    """

    def __init__(self, gate: RateLimiter, sent_at: float, tokens: float, size: TokenEstimate) -> None:
        self._gate, self.sent_at, self.tokens, self.size = gate, sent_at, tokens, size
        self.held_back_s = 0.0

    def learn(self, headers: Mapping[str, object]) -> None:
        """Update the limits from the headers of the reply."""
        self._gate.learn(self, headers)

    def answered(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Record the tokens that the call used, according to its reply."""
        if self._gate.counts_tokens and prompt_tokens + completion_tokens:
            self._gate.answered(self, (prompt_tokens, completion_tokens))

    def refused(self, retry_after: float | None, give_up_after_s: float) -> None:
        """Record that the provider refused the call with status 429; a wait that ends the command stops no other."""
        self._gate.refuse(retry_after if (retry_after or 0.0) <= give_up_after_s else None)


def gate_for(spec: str, address: str, key: str, limits: RateLimits) -> RateLimiter:
    """Return the limiter shared by all calls of a model at an address with one key.

    Args:
        address: address of the model's server.
        key: its API key; only the hash is used.
        limits: limits of all models.
    """
    name = sha256_text(f"{spec}\n{address}\n{key}")[:24]
    return _gate(name, limits.of(spec), limits.folder.absolute() / f"{name}.json" if limits.folder else None, spec)


@cache
def _gate(name: str, rate: Rate, path: Path | None, spec: str) -> RateLimiter:
    return RateLimiter(rate, path, spec)


def _read(path: Path) -> RateState:
    """Read the state from a file; return a new state if it is missing, or a killed process damaged it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RateState)
    except (FileNotFoundError, msgspec.DecodeError):
        return RateState()
