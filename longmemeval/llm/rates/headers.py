"""What the headers of a reply say of a provider's limits.

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
"""LiteLLM's prefix for headers as they came."""


class Told(Struct, frozen=True):
    """Of one kind: a limit and what is left of it in the window; None: not told."""

    limit: float | None = None
    remaining: float | None = None


def told(headers: Mapping[str, object]) -> dict[str, Told]:
    """What headers say of `requests` and of `tokens`; kinds they do not speak of are left out."""
    plain = {str(name).lower().removeprefix(_FORWARDED): value for name, value in headers.items()}
    found = {}
    for kind, names in _NAMES.items():
        limit, remaining = (
            next((number for name in names if (number := _number(plain.get(name.format(what)))) is not None), None)
            for what in ("limit", "remaining")
        )
        if limit is not None or remaining is not None:
            found[kind] = Told(limit, remaining)
    return found


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
