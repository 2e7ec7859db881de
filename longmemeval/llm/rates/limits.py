"""Limits set by the user: requests and tokens per minute, for all models or by name."""

from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from longmemeval.core.arguments import Options


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
    """The limits of all models; can be hashed and pickled."""

    models: tuple[tuple[str, Rate], ...] = ()
    """Limits by name or pattern (`openai/*`); the first match counts."""
    otherwise: Rate = Rate()
    """Limits of all other models."""
    folder: Path | None = None
    """Folder in which processes share their usage; None: each process counts by itself."""

    def of(self, spec: str) -> Rate:
        """Return the limits of a model."""
        return next((rate for pattern, rate in self.models if fnmatchcase(spec, pattern)), self.otherwise)
