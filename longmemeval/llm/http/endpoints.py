"""Where a chat model is served: by its provider, or wherever an option or the environment sends its calls.

A judge is also where it is served: labels given at one address say nothing about another.
"""

import os
import re
from urllib.parse import urlsplit, urlunsplit

from longmemeval.core.secrets.addresses import split_address
from longmemeval.core.secrets.redaction import public_url
from longmemeval.llm.costs.prices import load_litellm
from longmemeval.llm.options import ModelOptions, check_endpoint, is_offline
from longmemeval.llm.providers import split_spec

OWN_ENDPOINT = "provider's own"
"""The address of a model whose calls nothing sends elsewhere."""

OWN_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""What `--api-base` may name without sending calls elsewhere; LiteLLM tells those of OpenAI-compatible providers."""
_VARIABLE = re.compile(r"([A-Z0-9_]{3,}?)_(?:API_BASE|BASE_URL)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def endpoint(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """The address that `--api-base` or the environment sends calls of a model to; None: neither does.

    Args:
        spec: the model.
        options: how it is reached.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is none.
    """
    if options.api_base is not None:
        check_endpoint(options.api_base)
        return options.api_base
    if is_offline(spec):
        return None
    # Asked first: LiteLLM reads a `.env` file into the environment when it is loaded.
    provider, _ = split_spec(spec)
    return next((os.environ[name] for name in _variables(provider) if os.environ.get(name)), None)


def served_at(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """The address a model is served at, without user, password and query; `OWN_ENDPOINT` for its provider's own.

    Args:
        spec: the model; one of the harness itself is served nowhere: None.
        options: how it is reached.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is none.
    """
    if is_offline(spec):
        return None
    base = endpoint(spec, options)
    if base is None:
        return OWN_ENDPOINT
    address = _normal(base)
    return OWN_ENDPOINT if address in own_addresses(spec) else address


def cache_addresses(spec: str, options: ModelOptions = ModelOptions()) -> list[str]:
    """What stands for a model's address in the keys of its replies: now, and before it was normalised.

    Empty is the provider's own. Replies that an earlier version kept are found where their key says the same address:
    under no address at all it kept those of addresses in the environment too, which are taken for the provider's own.

    Args:
        spec: the model.
        options: how it is reached.

    Raises:
        FatalModelError: as `endpoint`.
    """
    served = served_at(spec, options)
    now = "" if served in (None, OWN_ENDPOINT) else str(served)
    given = split_address(endpoint(spec, options) or "").url
    return list(dict.fromkeys((now, given or now)))


def _variables(provider: str) -> list[str]:
    """Environment variables from which LiteLLM takes a provider's address, the first that is set counts."""
    if provider == "openai":
        return ["OPENAI_BASE_URL", "OPENAI_API_BASE"]
    # One rule for the many: COHERE_API_BASE goes for `cohere_chat` too, the longest name first.
    flat = re.sub("[^a-z0-9]", "", provider.lower())
    named = {name: match[1].replace("_", "").lower() for name in os.environ if (match := _VARIABLE.fullmatch(name))}
    fitting = [name for name, start in named.items() if flat.startswith(start)]
    return sorted(fitting, key=lambda name: (-len(named[name]), name))


def own_addresses(spec: str) -> set[str]:
    """The addresses of the model's own provider, as far as they are known."""
    provider, _ = split_spec(spec)
    own = {OWN_ADDRESSES[provider]} if provider in OWN_ADDRESSES else set()
    if not any(os.environ.get(name) for name in _variables(provider)):
        _, _, _, usual = load_litellm().get_llm_provider(model=spec)
        own |= {_normal(usual)} if usual else set()
    return own


def _normal(url: str) -> str:
    """One spelling for one address: host in lower case, no default port, no final slash."""
    parts = urlsplit(public_url(url))
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
