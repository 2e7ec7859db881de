"""Addresses of chat models: the provider's own, or one set by an option or the environment.

The address is part of a judge's identity: labels given at one say nothing about another.
"""

import os
import re
from urllib.parse import urlsplit, urlunsplit

from longmemeval.core.secrets.redaction import public_url, split_address
from longmemeval.llm.litellm_package import load_environment_file, load_litellm
from longmemeval.llm.options import ModelOptions, check_endpoint, is_offline
from longmemeval.llm.providers import OPENAI_PROVIDERS, is_command, split_spec

OWN_ENDPOINT = "provider's own"
"""Address of a model whose calls are not redirected."""

OWN_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""Addresses that `--api-base` may name without redirecting calls; LiteLLM knows those of OpenAI-compatible
providers."""
_OPTION = "--api-base"
_VARIABLE = re.compile(r"([A-Z0-9_]{3,}?)_(?:API_BASE|BASE_URL)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def endpoint(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """Return the address that `--api-base` or the environment redirects a model's calls to; None if neither does.

    A program has none.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is invalid.
    """
    if is_command(spec) or (is_offline(spec) and options.api_base is None):
        return None
    base, place = endpoint_of("" if options.api_base is not None else split_spec(spec)[0], options)
    if place == _OPTION:
        check_endpoint(base)
    return base


def endpoint_of(provider: str, options: ModelOptions) -> tuple[str | None, str]:
    """Return the address that redirects calls to a provider, unchecked, and the option or variable that holds it."""
    if options.api_base is not None:
        return options.api_base.strip(), _OPTION
    load_environment_file()
    found = ((os.environ.get(name, "").strip(), name) for name in _variables(provider))
    return next((pair for pair in found if pair[0]), (None, ""))


def served_at(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """Return a model's address without user, password and query; `OWN_ENDPOINT` for its provider's own.

    Args:
        spec: the model; for an offline model and a program the result is None.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is invalid.
    """
    if is_offline(spec) or is_command(spec):
        return None
    base = endpoint(spec, options)
    if base is None:
        return OWN_ENDPOINT
    address = _normal(base)
    return OWN_ENDPOINT if address in own_addresses(spec) else address


def cache_addresses(spec: str, options: ModelOptions = ModelOptions()) -> list[str]:
    """Return the forms of a model's address in the keys of its replies: normalised, and as it was given.

    Empty means the provider's own. Replies stored by an earlier version are found if their key has the same address;
    for addresses from the environment it stored none, so those replies count as the provider's own.

    Raises:
        FatalModelError: see `endpoint`.
    """
    served = served_at(spec, options)
    normalised = "" if served in (None, OWN_ENDPOINT) else str(served)
    raw = split_address(endpoint(spec, options) or "").url
    return list(dict.fromkeys((normalised, raw or normalised)))


def _variables(provider: str) -> list[str]:
    """Return the environment variables for a provider's address in LiteLLM; the first one set counts."""
    if provider == "openai":
        return ["OPENAI_BASE_URL", "OPENAI_API_BASE"]
    # One rule for all others: COHERE_API_BASE also applies to `cohere_chat`, the longest name first.
    flat = re.sub("[^a-z0-9]", "", provider.lower())
    named = {name: match[1].replace("_", "").lower() for name in os.environ if (match := _VARIABLE.fullmatch(name))}
    fitting = [name for name, start in named.items() if flat.startswith(start)]
    azures_own = ["AZURE_OPENAI_ENDPOINT"] if provider == "azure" else []
    return sorted(fitting, key=lambda name: (-len(named[name]), name)) + azures_own


def own_addresses(spec: str) -> set[str]:
    """Return the known addresses of the model's own provider."""
    provider, _ = split_spec(spec)
    own = {OWN_ADDRESSES[provider]} if provider in OWN_ADDRESSES else set()
    # OpenRouter's counts as another address where `--api-base` names it: identities of judges have it so.
    if provider != "openrouter" and not any(os.environ.get(name) for name in _variables(provider)):
        usual = _usual_address(spec, provider)
        own |= {_normal(usual)} if usual else set()
    return own


def _usual_address(spec: str, provider: str) -> str | None:
    if provider in OPENAI_PROVIDERS:
        return OPENAI_PROVIDERS[provider].address
    _, _, _, usual = load_litellm().get_llm_provider(model=spec)
    return str(usual) if usual else None


def _normal(url: str) -> str:
    """Normalise an address: host in lower case, no default port, no final slash."""
    parts = urlsplit(public_url(url))
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
