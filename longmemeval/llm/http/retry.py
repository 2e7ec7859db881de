"""Retries of calls that failed in a transient way."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, retry_if_result
from tenacity.wait import wait_base, wait_random_exponential

from longmemeval.core.http import LONGEST_REQUESTED_WAIT_S
from longmemeval.errors import TransientModelError

if TYPE_CHECKING:
    from longmemeval.llm.http.breaker import Breaker

Result = TypeVar("Result")


class _Wait(wait_base):
    """Exponential back-off with full jitter, never shorter than the wait that the server asked for.

    Full jitter spreads the retries of many concurrent calls: the wait is uniform between 0 and the smaller of
    `max_wait_s` and 2^(attempt - 1) seconds.
    """

    def __init__(self, max_wait_s: float, breaker: "Breaker | None") -> None:
        self._jitter = wait_random_exponential(multiplier=1, max=max_wait_s)
        self._breaker = breaker

    def __call__(self, retry_state: RetryCallState) -> float:
        if self._breaker and self._breaker.is_open:
            return 0.0  # The breaker itself assigns the turns.
        error = retry_state.outcome.exception() if retry_state.outcome else None
        requested = error.retry_after if isinstance(error, TransientModelError) else None
        return max(self._jitter(retry_state), min(requested or 0.0, LONGEST_REQUESTED_WAIT_S))


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
    attempts = 0

    async def attempt() -> Result:
        nonlocal attempts
        attempts += 1
        return await call()

    def stop(state: RetryCallState) -> bool:
        if breaker and breaker.ends_call:
            return True
        return attempts >= max_attempts and not (breaker and breaker.is_open)

    def last(state: RetryCallState) -> Result:
        outcome: Future[Result] | None = state.outcome
        if outcome is None:
            raise RuntimeError("no attempt was made")
        return outcome.result()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientModelError) | retry_if_result(lambda result: again(result, attempts)),
        stop=stop,
        wait=_Wait(max_wait_s, breaker),
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
