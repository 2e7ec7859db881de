"""The limits a user gives: requests and tokens per minute, for all models or by name."""

from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct


class Rate(Struct, frozen=True):
    """The limits of one model under one key."""

    rpm: float | None = None
    """Requests per minute; None: none, unless the provider's headers tell."""
    tpm: float | None = None
    """Tokens per minute, of prompts and replies."""
    window: float = 60.0
    """Over how many seconds the provider counts: 60 requests per minute over 1 second are one in each second."""
    headers: bool = True
    """Whether limits that the provider's headers tell are kept too, where they are lower."""

    def seconds(self, requests: float, tokens: float) -> float:
        """The least that so many requests and tokens take; 0 where there is no limit."""
        return max(
            60.0 * requests / self.rpm if self.rpm else 0.0,
            60.0 * tokens / self.tpm if self.tpm else 0.0,
        )


class RateLimits(Struct, frozen=True):
    """The limits of all models; can be hashed and pickled."""

    models: tuple[tuple[str, Rate], ...] = ()
    """By name or pattern (`openai/*`), the first that fits counts."""
    otherwise: Rate = Rate()
    """For models that fit none."""
    folder: Path | None = None
    """Where processes share what was used; None: each process counts by itself."""

    def of(self, spec: str) -> Rate:
        """The limits of a model."""
        return next((rate for pattern, rate in self.models if fnmatchcase(spec, pattern)), self.otherwise)
