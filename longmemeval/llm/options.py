"""Connection options for chat models, and which specs are offline."""

from typing import Annotated

from msgspec import Struct

from longmemeval.core.arguments import Options
from longmemeval.core.defaults import GIVE_UP_AFTER_S, MAX_ATTEMPTS, TIMEOUT_S
from longmemeval.core.options import LIMITS, MODEL, Flag
from longmemeval.core.secrets.redaction import fault_of, public_url, register_address
from longmemeval.errors import FatalModelError
from longmemeval.llm.rates import RateLimits

OFFLINE_WAY = "work offline: --model offline/extractive, --judge offline/lexical"
"""Remedy if a model cannot be called, for answers or as a judge."""


class SpendingLimit(Struct, frozen=True):
    """The maximum amount to spend."""

    dollars: float
    elsewhere: float = 0.0
    """US dollars of the limit that other accounts have spent (the other runs of a sweep)."""


ApiBase = Annotated[str | None, Flag(MODEL, "URL", "URL of an OpenAI-compatible endpoint.")]
GiveUpAfter = Annotated[
    float,
    Flag(
        metavar="SECONDS",
        name="--give-up-after",
        minimum=0.1,
        help="Seconds of failed calls before the command ends.",
    ),
]
MaxCost = Annotated[
    SpendingLimit | None,
    Flag(
        LIMITS,
        "USD",
        "Spending limit in US dollars, earlier attempts included.",
        name="--max-cost",
        minimum=0.0,
        read=float,
        made=SpendingLimit,
    ),
]
Concurrency = Annotated[int, Flag(MODEL, "N", "Maximum concurrent model calls.", minimum=1)]
Votes = Annotated[int, Flag(MODEL, "N", "Odd number of votes; the majority counts.", minimum=1)]
QueryModel = Annotated[
    str | None,
    Flag(
        metavar="MODEL",
        help="Chat model for decompose=model and time_range_by=model.",
    ),
]


class ModelOptions(Options, frozen=True):
    """Connection options for a chat model, and how long the harness keeps trying."""

    api_base: ApiBase = None
    """Address of the endpoint, such as http://localhost:8000/v1; None: the provider's own."""
    timeout_s: Annotated[float, Flag(metavar="SECONDS", name="--timeout", minimum=0.1)] = TIMEOUT_S
    """Time limit for each attempt of a model call."""
    max_attempts: Annotated[int, Flag(metavar="N", minimum=1)] = MAX_ATTEMPTS
    """Attempts per model call, including the first."""
    max_wait_s: float = 60.0
    """Longest wait between two attempts, in seconds; a server's Retry-After may be longer."""
    give_up_after_s: GiveUpAfter = GIVE_UP_AFTER_S
    """Seconds of failures without a success, whatever the call, after which the endpoint counts as dead."""
    rates: RateLimits = RateLimits()
    """Requests and tokens per minute; waiting for them counts neither as latency nor towards giving up."""

    def __post_init__(self) -> None:
        if isinstance(self.api_base, str):  # Anything else is refused later (`check_fields`).
            register_address(self.api_base)


def is_offline(spec: str) -> bool:
    """Return whether `spec` names an offline model of the harness, which needs no network and no LiteLLM."""
    return spec.partition("/")[0] == "offline"


def check_endpoint(api_base: str | None, where: str = "--api-base") -> None:
    """Refuse an address that cannot be called.

    Args:
        where: the option or variable that contains it.

    Raises:
        FatalModelError: it is not a web address, or contains parts that calls cannot carry.
    """
    if api_base is not None and (fault := fault_of(api_base)):
        raise FatalModelError(f"The endpoint '{public_url(api_base)}' {fault.what}", where=where, fix=fault.fix)
