"""Limits of a provider, read from the headers of a reply.

OpenAI's names (`x-ratelimit-limit-requests`, `-remaining-`, `-tokens`), which many providers use, and Anthropic's.
Limits count per window, a minute unless the user says otherwise.
"""

from collections.abc import Mapping

from msgspec import Struct

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
            next((number for name in names if (number := _number(plain.get(name.format(what)))) is not None), None)
            for what in ("limit", "remaining")
        )
        if limit is not None or remaining is not None:
            limits[kind] = ReportedLimit(limit, remaining)
    return limits


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
