"""What follows from a failed call: another attempt, a question given up, or an endpoint that counts as dead."""

import asyncio
import json
import math
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from longmemeval.core.http import THROUGH, note_wait, requested_wait, too_long_a_wait
from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import (
    ContextOverflowError,
    EndpointDownError,
    FatalModelError,
    HarnessError,
    ModelError,
    TransientModelError,
    chain,
)
from longmemeval.llm.http.openai_protocol import OF_A_PAGE, TRANSIENT_STATUS, RefusedCall, title_of, words_of

if TYPE_CHECKING:
    from tenacity import RetryCallState

# The consequence of a failed call for the run: try again, give up the question, or stop.

_FATAL_FIX = {
    401: "Set the right API key for this provider",
    402: "Top up the account",
    407: "Put the proxy's user and password, as USER:PASSWORD and an @, before its host",
    403: "Check that the key may use this model",
    404: "Check the model's name and --api-base",
}
_EMPTY_ACCOUNT = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"})
"""Error codes that come with status 429 or 400 although waiting does not help."""

_TOO_LONG = "context_length_exceeded"
_TOO_LONG_TEXTS = re.compile(
    r"exceed context limit|this model's maximum context length is|model's maximum context limit|is longer than the "
    r"model's context length|input tokens exceed the configured limit|`inputs` tokens \+ `max_new_tokens` must be|"
    r"exceeds the available context size|exceeds the maximum number of tokens allowed|current length is.*while limit "
    r"is|maximum input length is.*tokens",
    re.IGNORECASE | re.DOTALL,
)
"""What servers say of a prompt that exceeds the window, as LiteLLM knows it."""

_LITELLM_PREFIX = re.compile(r"^litellm\.\w+: (?:\w+: )?(?:\w+Exception - )?")
_LONGEST_MESSAGE = 500


class UnreadableReplyError(Exception):
    """A reply that no client can read; another attempt may get a better one."""


def _classes(*names: str) -> tuple[type[Exception], ...]:
    """Return classes of the client libraries that are loaded: the others have raised nothing."""
    found = (name.split(".") for name in names)
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


def _too_late() -> tuple[type[Exception], ...]:
    return TimeoutError, *_classes("httpx.TimeoutException")


def _connection_lost() -> tuple[type[Exception], ...]:
    lost = _classes("httpx.TransportError", "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError")
    return ConnectionError, *lost


def _no_reply() -> tuple[type[Exception], ...]:
    unread = _classes("httpx.RequestError", "aiohttp.ClientError")
    return *_too_late(), *_connection_lost(), *unread, UnreadableReplyError


def _never_connected() -> tuple[type[Exception], ...]:
    return _classes(
        *(
            "httpx.ConnectError",
            "httpx.ConnectTimeout",
            "aiohttp.ClientConnectorError",
            "aiohttp.ConnectionTimeoutError",
        )
    )


def meaning_of(error: Exception, where: str) -> HarnessError:
    """Return the meaning of a failed attempt.

    Args:
        error: an exception of LiteLLM, aiohttp or httpx, or one of our own.
        where: the model and its endpoint, for the message.

    Returns:
        `TransientModelError` for 408, 409, 429, 5xx, timeouts, lost connections and replies that cannot be read or are
        not JSON or were broken off; `FatalModelError` for 401, 402, 403, 404, an empty account, a web page in the place
        of a reply and a redirect to another server;
        `ContextOverflowError` where the server says that the prompt is too long; `ModelError` for everything else,
        unknown errors included. No text contains a key.

        A request that the server refused with a status below 500, or that never reached it, is not billed. Others may
        have been: a timeout, a lost connection, a 5xx, an unreadable reply.
    """
    where = redact(where)
    if known := next((link for link in chain(error) if isinstance(link, (FatalModelError, ModelError))), None):
        known.where = where
        return known
    if by_proxy := refused_by_proxy(error, where):
        return by_proxy
    response = _refused(error)
    status = _status(error, response)
    detail = _details(response)
    message = _message(error, response)
    if _EMPTY_ACCOUNT & {str(detail.get("code")), str(detail.get("type"))}:
        return FatalModelError(f"The account is empty: {message}", where=where, fix=_FATAL_FIX[402])
    if status in _FATAL_FIX:
        fix = OF_A_PAGE if status != 404 and _title(response) else _FATAL_FIX[status]
        return FatalModelError(f"The server refused the call, {status}: {message}", where=where, fix=fix)
    if status is None and _caused_by(error, _never_connected()):
        return TransientModelError(f"No connection could be made: {_cause(error)}", where=where, unreachable=True)
    if status is None and _caused_by(error, _too_late()):
        return TransientModelError("The server gave no reply in time", where=where, may_be_billed=True)
    if status is None and _caused_by(error, _connection_lost()):
        return TransientModelError(f"The connection failed: {_reason(error)}", where=where, may_be_billed=True)
    if status is None and _caused_by(error, _no_reply()):
        reason = f"The server's reply cannot be read: {_reason(error)}"
        return TransientModelError(reason, where=where, may_be_billed=True)
    if status is None and _caused_by(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return TransientModelError("The server's reply is not JSON", where=where, may_be_billed=True)
    if status is not None and (status in TRANSIENT_STATUS or status >= 500):
        requested = requested_wait(response.headers, message) if response is not None else None
        return TransientModelError(
            f"The server is busy or failed, {status}: {message}",
            where=where,
            may_be_billed=status >= 500,
            retry_after=requested,
            too_many=status == 429,
        )
    what = f"The call failed{f', {status}' if status else ''}: {message}"
    if status is not None and _is_too_long(error, detail):
        return ContextOverflowError(what, where=where)
    return ModelError(what, where=where, may_be_billed=status is None)


def _proxy_or_address(where: str) -> str:
    return "the proxy (NO_PROXY exempts servers from it)" if THROUGH in where else "the address (--api-base)"


def refused_by_proxy(error: Exception, where: str) -> HarnessError | None:
    """Return the meaning of a proxy's failure to connect; None if the failure is another."""
    kinds = _classes("aiohttp.ClientHttpProxyError", "httpx.ProxyError")
    if not (links := [link for link in chain(error) if isinstance(link, kinds)]):
        return None
    said = re.sub(", message='(.*)', url=.*", r" \1", _message(links[-1], None))
    if refused := re.match(r"4\d\d\b", said):
        fix = _FATAL_FIX[407] if refused[0] == "407" else "Add the server to NO_PROXY, or have the proxy admit it"
        return FatalModelError(f"The proxy refused the connection: {said}", where=where, fix=fix)
    reason = _cause(error) if _caused_by(error, (OSError,)) else said
    return TransientModelError(f"The proxy could not connect: {reason}", where=where, unreachable=True)


def refusal_of(error: Exception) -> tuple[int | None, str, str]:
    """Return the status of a failure, the server's message, and the field it names (`param`), both empty if unknown.

    vLLM's older servers, and FastAPI's, put the message outside of an `error` object.
    """
    response = _refused(error)
    detail = _details(response)
    text = str(detail.get("message") or (response.body.decode(errors="replace") if response else "") or error)
    return _status(error, response), " ".join(text.split()), str(detail.get("param") or "")


def _is_too_long(error: Exception, detail: dict[str, Any]) -> bool:
    """Return whether the server says that the prompt exceeds the model's window.

    LiteLLM knows how each provider reports it.
    """
    by_litellm = any(type(link).__name__ == "ContextWindowExceededError" for link in chain(error))
    by_text = isinstance(error, RefusedCall) and _TOO_LONG_TEXTS.search(str(error))
    return bool(by_litellm or by_text) or _TOO_LONG in (detail.get("code"), detail.get("type"))


def _cause(error: Exception) -> str:
    """Return the operating system's message about a connection that failed."""
    causes = [link for link in chain(error) if isinstance(link, OSError)]
    return _message(causes[-1] if causes else error)


def _reason(error: Exception) -> str:
    """Return the message of the innermost cause that has one: libraries call each of them "Connection error."."""
    causes = [link for link in chain(error) if isinstance(link, _no_reply()) and str(link)]
    return _message(causes[-1] if causes else error)


def _refused(error: Exception) -> RefusedCall | None:
    """Return the server's refusal among the causes of a failure."""
    for link in chain(error):
        if isinstance(link, RefusedCall):
            return link
        if isinstance(link, _classes("httpx.HTTPStatusError")):
            response: Any = vars(link)["response"]
            try:
                body = response.content
            except RuntimeError:  # It was not read.
                body = b""
            return RefusedCall(response.status_code, response.headers, body)
    return None


def _status(error: Exception, response: RefusedCall | None) -> int | None:
    """Return the HTTP status of the failure; None when no server gave one.

    LiteLLM's own status counts in two cases only: 401, because some providers report a bad key as 400, and any status
    but 500, which it uses for everything unknown, if there is no reply to examine.
    """
    declared = getattr(error, "status_code", None)
    if declared == 401:
        return 401
    if response is not None:
        return response.status_code
    if isinstance(declared, int) and declared != 500 and not _caused_by(error, _no_reply()):
        return declared
    return None


def _caused_by(error: Exception, kinds: tuple[type[Exception], ...]) -> bool:
    return any(isinstance(link, kinds) for link in chain(error))


def _document(response: RefusedCall | None) -> dict[str, Any]:
    """Return the JSON object in the body of a refusal; empty if there is none."""
    try:
        body = json.loads(response.body) if response is not None else None
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _details(response: RefusedCall | None) -> dict[str, Any]:
    """Return the `error` object of a reply in OpenAI's form; empty if the reply has another form."""
    detail = _document(response).get("error")
    return detail if isinstance(detail, dict) else {}


def _title(response: RefusedCall | None) -> str | None:
    """Return the title of a refusal that is a web page; None if it is none."""
    return title_of(response.body.decode(errors="replace")) if response else None


def _message(error: Exception, response: RefusedCall | None = None) -> str:
    """Return what a server said: its error in words, or the title of its page; else the library's message."""
    text = (
        _title(response) or words_of(_document(response)) or _LITELLM_PREFIX.sub("", str(error)) or type(error).__name__
    )
    return " ".join(redact(text).split())[:_LONGEST_MESSAGE]


# Retries of calls that failed in a transient way.

Result = TypeVar("Result")


def _waits(max_wait_s: float, breaker: "Breaker | None") -> Callable[["RetryCallState"], float]:
    """Return exponential back-off with full jitter, never shorter than the wait that the server asked for.

    Full jitter spreads the retries of many concurrent calls: the wait is uniform between 0 and the smaller of
    `max_wait_s` and 2^(attempt - 1) seconds.
    """
    from tenacity import wait_random_exponential

    jitter = wait_random_exponential(multiplier=1, max=max_wait_s)

    def wait(state: "RetryCallState") -> float:
        if breaker and breaker.is_open:
            return 0.0  # The breaker itself assigns the turns.
        error = state.outcome.exception() if state.outcome else None
        requested = error.retry_after if isinstance(error, TransientModelError) else None
        return max(jitter(state), requested or 0.0)

    return wait


async def call_with_retries(
    call: Callable[[], Awaitable[Result]],
    *,
    max_attempts: int,
    max_wait_s: float,
    again: Callable[[Result, int], bool] = lambda result, attempts: False,
    breaker: "Breaker | None" = None,
) -> tuple[Result, int]:
    """Await `call()` until it succeeds, fails for good, or has failed `max_attempts` times.

    Args:
        call: starts one attempt.
        max_attempts: attempts in all, the first included. Attempts while the circuit is open do not end a call.
        max_wait_s: longest wait between two attempts, in seconds, unless the server asks for more.
        again: decides from a result and the number of attempts so far whether to make another; the last result counts
            if no attempts are left.
        breaker: state of the endpoint.

    Returns:
        The result and the number of attempts it took.

    Raises:
        TransientModelError: the last attempt failed too; the error states their number.
    """
    from tenacity import AsyncRetrying, retry_if_exception_type, retry_if_result

    attempts = 0

    async def attempt() -> Result:
        nonlocal attempts
        attempts += 1
        return await call()

    def stop(state: "RetryCallState") -> bool:
        if breaker and breaker.ends_call:
            return True
        return attempts >= max_attempts and not (breaker and breaker.is_open)

    def last(state: "RetryCallState") -> Result:
        outcome: Future[Result] | None = state.outcome
        if outcome is None:
            raise RuntimeError("no attempt was made")
        return outcome.result()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientModelError) | retry_if_result(lambda result: again(result, attempts)),
        stop=stop,
        wait=_waits(max_wait_s, breaker),
        retry_error_callback=last,
    )
    try:
        return await retrying(attempt), attempts
    except TransientModelError as error:
        place = f"{error.where}, attempts: {attempts}"
        raise TransientModelError(
            error.what,
            where=place,
            fix=error.fix,
            may_be_billed=error.may_be_billed,
            retry_after=error.retry_after,
        ) from None


# A circuit breaker: the state of an endpoint, shared by all calls, so that a dead endpoint does not get thousands.

OPENS_AFTER = 10
"""Consecutive failed attempts, of at least two calls, after which only one attempt at a time is made."""

FIRST_CONTACT_S = 5.0
"""Seconds after which an endpoint is given up if no connection was ever made: nothing was started there that could be
lost."""

_PARTS = 10
"""Divisor of the time until giving up: a probe gets at least one part, and pauses between probes grow up to one."""


class Breaker:
    """Lets attempts through while the endpoint answers; one at a time, as probes, while it does not.

    Only transient errors count as failures: 429, 5xx, a timeout, a lost connection, a reply that is not JSON. Anything
    else shows that the endpoint is alive. Failures of one call alone may be the fault of its request: they end only
    that call.

    Args:
        where: the endpoint, for messages.
        give_up_after_s: seconds of failures without a success after which no more requests are sent, and the longest
            wait that the server may ask for (`Retry-After`). FIRST_CONTACT_S if no connection could be made so far.
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
            requested = error.retry_after or 0.0
            if requested > self._give_up_after_s:
                self._down = too_long_a_wait(self._where, requested, self._give_up_after_s, error.what)
                return self._down
            # Checked before the next wait that this failure requests.
            self._waited_enough = self._is_hopeless
            if self._waited_enough and len(self._failing_calls) > 1:
                return self._given_up()
            pause = min(2.0**self._probes, self._give_up_after_s / _PARTS)
            self._next_probe_at = now + pause
            note_wait(self._where, requested)
            self._paused_until = max(self._paused_until, now + requested)
            return None

    def _given_up(self) -> EndpointDownError:
        seconds = time.monotonic() - self._failing_since
        if not self._is_known and self._give_up_after_s > FIRST_CONTACT_S:
            self._down = EndpointDownError(
                f"{self._where} cannot be reached: {self._failures} attempts, {seconds:,.0f} s. "
                f"Last error: {self._last_failure}",
                fix=f"Check the network, {_proxy_or_address(self._where)} and that the server is running, and rerun "
                "the same command",
            )
            return self._down
        self._down = EndpointDownError(
            f"{self._where} has failed every call for {seconds:,.0f} s ({self._failures} attempts in a row). "
            f"Last error: {self._last_failure}",
            fix="Rerun the same command when it answers again; --give-up-after SECONDS waits longer",
        )
        return self._down
