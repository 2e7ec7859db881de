"""Endpoint of a model's calls, and the matching arguments of LiteLLM."""

from typing import Any

import httpx

from longmemeval.core.secrets.redaction import Address
from longmemeval.llm.http.endpoints import endpoint, own_addresses
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import key_in_environment
from longmemeval.llm.rates.gate import gate_for

CONNECT_S = 10.0
"""Longest wait for a connection, seconds; LiteLLM tries twice."""


class Destination:
    """The endpoint of a model.

    Args:
        options: endpoint and time-out.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.

    Attributes:
        name: the model and its address, for messages.
        served_at: address to connect to in advance; None if unknown.
        gate: limiter of its calls under the provider's limits.
    """

    def __init__(self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None) -> None:
        self._spec, self._timeout_s, self._api_key, self._address = spec, options.timeout_s, api_key, address
        self.name = f"{spec} at {address.url}" if address else spec
        self.served_at = address.url if address else endpoint(spec, options) or next(iter(own_addresses(spec)), None)
        self.gate = gate_for(spec, self.served_at or "", api_key or key_in_environment(spec), options.rates)

    def arguments(self, seconds: float) -> dict[str, Any]:
        """Return LiteLLM's arguments besides the request, for one attempt of at most `seconds` seconds."""
        return {
            "model": self._spec,
            # A dead address is noticed much sooner than a slow model.
            "timeout": httpx.Timeout(self._timeout_s, connect=min(seconds / 4, CONNECT_S)),
            "api_base": self._address.url if self._address else None,
            "extra_headers": self._address.headers if self._address else None,
            "api_key": self._api_key,
            "num_retries": 0,
            "max_retries": 0,
            # A model that takes no temperature is called without one; `registry.model_warning` says so.
            "drop_params": True,
        }
