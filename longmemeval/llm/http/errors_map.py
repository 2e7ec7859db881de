"""The consequence of a failed call for the run: try again, give up the question, or stop."""

import json
import re
from typing import Any

import httpx

from longmemeval.core.http import retry_after_seconds
from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import (
    ContextOverflowError,
    FatalModelError,
    HarnessError,
    ModelError,
    TransientModelError,
    chain,
)

_TRANSIENT_STATUS = frozenset({408, 409, 429})
_FATAL_FIX = {
    401: "Set the right API key for this provider",
    402: "Top up the account",
    403: "Check that the key may use this model",
    404: "Check the model's name and --api-base",
}
_EMPTY_ACCOUNT = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"})
"""Error codes that come with status 429 or 400 although waiting does not help."""

_TOO_LATE: tuple[type[Exception], ...] = (TimeoutError, httpx.TimeoutException)
_CONNECTION_LOST: tuple[type[Exception], ...] = (ConnectionError, httpx.TransportError)
_NO_REPLY: tuple[type[Exception], ...] = (*_TOO_LATE, *_CONNECTION_LOST, httpx.RequestError)
_NEVER_CONNECTED: tuple[type[Exception], ...] = (httpx.ConnectError, httpx.ConnectTimeout)
_TOO_LONG = "context_length_exceeded"

_LITELLM_PREFIX = re.compile(r"^litellm\.\w+: (?:\w+: )?(?:\w+Exception - )?")
_LONGEST_MESSAGE = 500


def meaning_of(error: Exception, where: str) -> HarnessError:
    """Return the meaning of a failed attempt.

    Args:
        error: an exception of LiteLLM, or our own `TimeoutError`.
        where: the model and its endpoint, for the message.

    Returns:
        `TransientModelError` for 408, 409, 429, 5xx, time-outs, lost connections and replies that cannot be read or are
        not JSON; `FatalModelError` for 401, 402, 403, 404, an empty account and a redirect to another server;
        `ContextOverflowError` where the server says that the prompt is too long; `ModelError` for everything else,
        unknown errors included. No text contains a key.

        A request that the server refused with a status below 500, or that never reached it, is not billed. Others may
        have been: a time-out, a lost connection, a 5xx, an unreadable reply.
    """
    where = redact(where)
    if refused := next((link for link in chain(error) if isinstance(link, FatalModelError)), None):
        return FatalModelError(refused.what, where=where, fix=refused.fix)
    response = next((link.response for link in chain(error) if isinstance(link, httpx.HTTPStatusError)), None)
    status = _status(error, response)
    detail = _details(response)
    message = _message(error, detail)
    if _EMPTY_ACCOUNT & {str(detail.get("code")), str(detail.get("type"))}:
        return FatalModelError(f"The account is empty: {message}", where=where, fix=_FATAL_FIX[402])
    if status in _FATAL_FIX:
        return FatalModelError(f"The server refused the call, {status}: {message}", where=where, fix=_FATAL_FIX[status])
    if status is None and _caused_by(error, _NEVER_CONNECTED):
        return TransientModelError(f"No connection could be made: {_cause(error)}", where=where, unreachable=True)
    if status is None and _caused_by(error, _TOO_LATE):
        return TransientModelError("The server gave no reply in time", where=where, may_be_billed=True)
    if status is None and _caused_by(error, _CONNECTION_LOST):
        return TransientModelError(f"The connection failed: {_reason(error)}", where=where, may_be_billed=True)
    if status is None and _caused_by(error, _NO_REPLY):
        reason = f"The server's reply cannot be read: {_reason(error)}"
        return TransientModelError(reason, where=where, may_be_billed=True)
    if status is None and _caused_by(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return TransientModelError("The server's reply is not JSON", where=where, may_be_billed=True)
    if status is not None and (status in _TRANSIENT_STATUS or status >= 500):
        requested = retry_after_seconds(response.headers.get("retry-after")) if response is not None else None
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


def _is_too_long(error: Exception, detail: dict[str, Any]) -> bool:
    """Return whether the server says that the prompt exceeds the model's window.

    LiteLLM knows how each provider reports it.
    """
    by_litellm = any(type(link).__name__ == "ContextWindowExceededError" for link in chain(error))
    return by_litellm or _TOO_LONG in (detail.get("code"), detail.get("type"))


def _cause(error: Exception) -> str:
    """Return the operating system's message about a connection that failed."""
    causes = [link for link in chain(error) if isinstance(link, OSError)]
    return _message(causes[-1] if causes else error, {})


def _reason(error: Exception) -> str:
    """Return the message of the innermost cause that has one: libraries call each of them "Connection error."."""
    causes = [link for link in chain(error) if isinstance(link, _NO_REPLY) and str(link)]
    return _message(causes[-1] if causes else error, {})


def _status(error: Exception, response: httpx.Response | None) -> int | None:
    """Return the HTTP status of the failure; None when no server gave one.

    LiteLLM's own status counts in two cases only: 401, because some providers report a bad key as 400, and any status
    but 500, which it uses for everything unknown, if there is no reply to examine.
    """
    declared = getattr(error, "status_code", None)
    if declared == 401:
        return 401
    if response is not None:
        return response.status_code
    if isinstance(declared, int) and declared != 500 and not _caused_by(error, _NO_REPLY):
        return declared
    return None


def _caused_by(error: Exception, kinds: tuple[type[Exception], ...]) -> bool:
    return any(isinstance(link, kinds) for link in chain(error))


def _details(response: httpx.Response | None) -> dict[str, Any]:
    """Return the `error` object of a reply in OpenAI's form; empty if the reply has another form."""
    try:
        body = response.json() if response is not None else None
    except (ValueError, httpx.ResponseNotRead):
        return {}
    detail = body.get("error") if isinstance(body, dict) else None
    return detail if isinstance(detail, dict) else {}


def _message(error: Exception, detail: dict[str, Any]) -> str:
    text = str(detail.get("message") or "") or _LITELLM_PREFIX.sub("", str(error)) or type(error).__name__
    return " ".join(redact(text).split())[:_LONGEST_MESSAGE]
