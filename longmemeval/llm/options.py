"""Connection options for chat models, and which specs are offline."""

from longmemeval.core.arguments import Options
from longmemeval.core.defaults import GIVE_UP_AFTER_S, MAX_ATTEMPTS, TIMEOUT_S
from longmemeval.core.secrets.addresses import fault_of
from longmemeval.core.secrets.redaction import public_url, register_address
from longmemeval.errors import FatalModelError
from longmemeval.llm.rates.limits import RateLimits

OFFLINE_WAY = "work offline: --model offline/extractive, --judge offline/lexical"
"""Remedy when a model cannot be called, whether for answers or as a judge."""


class ModelOptions(Options, frozen=True):
    """Connection options for a chat model, and how long the harness keeps trying."""

    api_base: str | None = None
    """An OpenAI-compatible endpoint, such as http://localhost:8000/v1; None: the provider's own."""
    timeout_s: float = TIMEOUT_S
    """Seconds for one attempt."""
    max_attempts: int = MAX_ATTEMPTS
    """Attempts per call, the first included."""
    max_wait_s: float = 60.0
    """Longest wait of our own choosing between two attempts, seconds; a server's Retry-After may be longer."""
    give_up_after_s: float = GIVE_UP_AFTER_S
    """Seconds of failures without a success, whatever the call, after which the endpoint counts as dead."""
    rates: RateLimits = RateLimits()
    """Requests and tokens per minute; waiting for them counts neither as latency nor towards giving up."""

    def __post_init__(self) -> None:
        register_address(self.api_base)


def is_offline(spec: str) -> bool:
    """Return whether `spec` names an offline model of the harness, which needs no network and no LiteLLM."""
    return spec.partition("/")[0] == "offline"


def check_endpoint(api_base: str | None, where: str = "--api-base") -> None:
    """Refuse an address that cannot be called.

    Args:
        where: option or variable that gave it.

    Raises:
        FatalModelError: it is not a web address, or contains parts that calls cannot carry.
    """
    if api_base is not None and (fault := fault_of(api_base)):
        raise FatalModelError(f"The endpoint '{public_url(api_base)}' {fault.what}", where=where, fix=fault.fix)
