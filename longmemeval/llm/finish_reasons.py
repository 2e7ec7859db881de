"""Finish reasons: OpenAI's names for what servers say. An unknown one keeps its name and is never taken for `stop`."""

_NAMES = {
    "stop": "eos eos_token end_turn stop_sequence complete completed",
    "length": "max_tokens max_output_tokens model_length",
    "tool_calls": "tool_use",
    "content_filter": "refusal sensitive content_filtered safety recitation blocklist prohibited_content spii "
    "error_toxic guardrail_intervened",
}
_SAME = {name: ours for ours, names in _NAMES.items() for name in names.split()}
_WHOLE = frozenset(("", "stop", "tool_calls", "function_call", "abstained"))
_FAILED = frozenset(
    (
        *("error", "abort", "aborted", "cancel", "cancelled", "canceled", "failed", "timeout"),
        *("network_error", "engine_error", "error_limit", "insufficient_system_resource"),
    )
)


def finish_reason_of(said: object) -> str:
    """Return the finish reason that a server gives, by OpenAI's name if it means the same; `stop` if there is none."""
    reason = str(said or "stop")
    known = reason.lower()
    return _SAME.get(known, known if known in _WHOLE or known in _NAMES else reason)


def is_whole(reason: str) -> bool:
    """Return whether a reply with this finish reason, by OpenAI's name, ended where the model meant it to."""
    return reason in _WHOLE


def is_failure(reason: str) -> bool:
    """Return whether the server broke the reply off, so that the call has failed."""
    return reason.lower() in _FAILED
