"""Loading a chat model by the name that a user gives, or failing before any call is made."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.secrets.redaction import Address, split_address
from longmemeval.errors import FatalModelError, nearest
from longmemeval.llm.costs import Account, Receipts, price
from longmemeval.llm.http.endpoints import endpoint, endpoint_of
from longmemeval.llm.http.openai_protocol import is_direct, takes_temperature
from longmemeval.llm.http.own_server import is_own_server
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import OFFLINE_WAY, ModelOptions, check_endpoint, is_offline, split_options
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.providers import (
    AZURE_VERSIONS,
    OPENAI_PROVIDERS,
    has_price,
    is_command,
    key_in_environment,
    near_models,
    setting,
    split_spec,
    table_entry,
)

if TYPE_CHECKING:
    from longmemeval.llm.http.batch_endpoint import BatchEndpoint
    from longmemeval.llm.http.forward import ForwardedModel
    from longmemeval.llm.http.reranking import RerankModel


_EXTRACTIVE = "offline/extractive"
_SCRIPTED = "offline/scripted:"

_PLACEHOLDER_KEY = "no-key-needed"
"""Key sent to a user's own endpoint if no key is set, since OpenAI clients require one."""

_OTHER_CREDENTIALS = frozenset({"bedrock", "sagemaker", "sagemaker_chat", "vertex_ai", "vertex_ai_beta"})
"""Providers that also take credentials from profile files or the machine's role, which no variable shows."""


_TAKES_USER_INFORMATION = frozenset(
    {"openai", "custom_openai", "lm_studio", "litellm_proxy", "llamafile", "xinference"}
    | {"azure", "ollama", "ollama_chat", "anthropic", "gemini"}
)
"""Providers for which LiteLLM sends a header as given; for others it replaces it with its own."""


def load_chat_model(spec: str, options: ModelOptions = ModelOptions(), *, account: Account | None = None) -> ChatModel:
    """Return the chat model that `spec` names, checked as far as possible without a call.

    Args:
        spec: `offline/extractive`, `offline/scripted:FILE`, a control (`offline/refuse`), a program
            (`command:claude -p`), or a model as LiteLLM names it (`openai/gpt-4o`).
        options: ignored by the offline models.
        account: records and limits every attempt; offline models cost nothing.

    Raises:
        FatalModelError: no such provider, model or program, no key in the environment, a wrong endpoint, or an unknown
            price together with a limit.
        HarnessError: the file of `offline/scripted` cannot be read.
    """
    if is_offline(spec):
        return _load_offline(spec)
    if is_command(spec):
        from longmemeval.llm.command import CommandModel

        _account_for(spec, account)
        return CommandModel(spec, options)
    from longmemeval.llm.http.client import RemoteChatModel

    api_key, address = _key_and_address(spec, options)
    return RemoteChatModel(spec, options, api_key, address=address, account=_account_for(spec, account))


def load_forwarded(
    spec: str, options: ModelOptions = ModelOptions(), *, account: Account | None = None
) -> "ForwardedModel":
    """Return the model that `spec` names, for requests of other programs; see `load_chat_model`.

    Raises:
        FatalModelError: also for an offline model or a program, which answers our own questions only.
    """
    if is_offline(spec) or is_command(spec):
        raise FatalModelError(
            f"{spec} answers questions of this harness, not requests of a memory system",
            fix="Name a model such as openai/gpt-4o-mini, with --api-base for a local endpoint",
        )
    from longmemeval.llm.http.forward import ForwardedModel

    api_key, address = _key_and_address(spec, options)
    return ForwardedModel(spec, options, api_key, address, _account_for(spec, account))


def load_batch_endpoint(
    spec: str, options: ModelOptions = ModelOptions(), *, account: Account | None = None
) -> "tuple[BatchEndpoint, Account | None]":
    """Return the batch endpoint of the model that `spec` names, and its account; see `load_chat_model`.

    Raises:
        FatalModelError: also for an offline model, and a provider whose batches LiteLLM does not know.
    """
    check_batches(spec)
    from longmemeval.llm.http.batch_endpoint import BatchEndpoint

    api_key, address = _key_and_address(spec, options)
    return BatchEndpoint(spec, options, api_key, address), _account_for(spec, account)


def load_rerank_model(
    spec: str, options: ModelOptions = ModelOptions(), *, account: Account | None = None
) -> "RerankModel":
    """Return the reranker that `spec` names, such as `cohere/rerank-v3.5`; see `load_chat_model`.

    Raises:
        FatalModelError: also for a model that is known to be no reranker.
    """
    from longmemeval.llm.http.reranking import RerankModel

    _check_reachable(spec, options)
    api_key, address = _key_and_address(spec, options, "rerank")
    if not has_price(table_entry(spec)):  # A server of the user's is free.
        account = None if options.api_base else _account_for(spec, account)
    return RerankModel(spec, options, api_key, address, account)


def _check_reachable(spec: str, options: ModelOptions) -> None:
    """Raise if there is neither an address nor a key for a reranker."""
    provider, _ = split_spec(spec)
    if provider in _OTHER_CREDENTIALS or endpoint(spec, options):
        return
    litellm, own = load_litellm(), OPENAI_PROVIDERS.get(provider)
    _, _, key, _ = litellm.get_llm_provider(model=spec)
    # LiteLLM does not look for Jina's key, and says that it is there.
    has_key = key or (provider != "jina_ai" and litellm.validate_environment(model=spec)["keys_in_environment"])
    if has_key and (own is None or own.address):
        return
    variable = f"{provider.upper()}_API_KEY"
    raise FatalModelError(
        f"{spec} needs a key, or the address of your own server",
        where=f"environment: {variable}",
        fix=f"Set {variable}, or write --set reranker=litellm:{spec}@http://HOST:PORT",
    )


def check_batches(spec: str) -> None:
    """Refuse a model that has no batches.

    Raises:
        FatalModelError: an offline model, a program, or a provider whose batches LiteLLM does not know.
    """
    if is_offline(spec):
        raise FatalModelError(f"{spec} runs locally at no cost; --batch does not apply", fix="Leave out --batch")
    if is_command(spec):
        raise FatalModelError(f"{spec} is a program, which has no batches", fix="Leave out --batch")
    from longmemeval.llm.http.batch_endpoint import batch_provider

    batch_provider(spec)


def _key_and_address(spec: str, options: ModelOptions, mode: str = "chat") -> tuple[str | None, Address | None]:
    """Return the key and the address of calls, each None if LiteLLM finds it itself; checked without a call."""
    check_endpoint(options.api_base)
    if own := split_options(spec)[1]:
        name = own[0].partition("=")[0].replace("_", "-")
        fix = f"Give them to the command, such as --{name}; in files and in Python under `model_options`"
        raise FatalModelError("This model does not take options after its name", where=spec, fix=fix)
    _check_kind(spec, mode)
    return _placeholder_key(spec, options.api_base), _address(spec, options)


def is_priced(spec: str) -> bool:
    """Return whether calls of a model have a known cost."""
    return spec != "rules" and not is_offline(spec) and bool(price(spec, 1000, 1000))


def model_warning(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """Return a warning about a model that can be called anyway; None when there is none.

    Covers a name that is not in the price table, and a model that does not take the given temperature.

    Raises:
        FatalModelError: no such provider.
    """
    if is_offline(spec):
        return None
    if is_command(spec):
        return program_note(spec)
    notes = []
    provider, name = split_spec(spec)
    if table_entry(spec) is None:
        near = near_models(name, provider) if options.api_base is None else []
        suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
        unknown = "cost and context window are unknown"
        if is_own_server(spec, options):
            unknown = "cost is unknown, and its server is asked for its context window"
        notes.append(f"{spec} is not in the price table: its {unknown}{suggestion}")
    if not _takes_temperature(spec, provider, name):
        notes.append(f"{spec} takes no temperature: it is called without one and may answer differently each time")
    return ". ".join(notes) or None


def program_note(spec: str) -> str:
    """Return what is not known of a model that is a program, and does not reach it; empty for other models.

    Raises:
        FatalModelError: no such program.
    """
    if not is_command(spec):
        return ""
    from longmemeval.llm.command import command_words

    command_words(spec)
    return f"{spec} gets the prompt only, no temperature and no --max-tokens. Its tokens and cost are unknown"


def _load_offline(spec: str) -> ChatModel:
    from longmemeval.llm.offline import CONTROL_MODELS, ControlModel, ExtractiveModel, ScriptedModel

    if spec == _EXTRACTIVE:
        return ExtractiveModel()
    if spec in CONTROL_MODELS:
        return ControlModel(spec, CONTROL_MODELS[spec])
    if spec.startswith(_SCRIPTED):
        return ScriptedModel(Path(spec.removeprefix(_SCRIPTED)))
    names = [_EXTRACTIVE, f"{_SCRIPTED}FILE", *CONTROL_MODELS]
    raise FatalModelError(f"Unknown offline model {spec!r}", fix=nearest(spec, names))


def _account_for(spec: str, account: Account | None) -> Account | None:
    """Return `account` if the model has costs to record.

    Raises:
        FatalModelError: the model's price is not known, so a limit could not be enforced.
    """
    if account and account.limit and price(spec, 1) is None:
        raise FatalModelError(
            f"The price of {spec} is not known, so --max-cost cannot be enforced",
            fix="Leave out --max-cost, or name a model with a known price",
        )
    return account if is_priced(spec) else None


def _address(spec: str, options: ModelOptions) -> Address | None:
    """Return the destination of calls, from the option or the environment; None: LiteLLM knows it.

    Raises:
        FatalModelError: it cannot be called at all, or not with the user information that it contains.
    """
    base = endpoint(spec, options)
    if base is None:
        return None
    provider, name = split_spec(spec)
    _, where = endpoint_of(provider, options)
    check_endpoint(base, where)
    own_protocol = provider not in OPENAI_PROVIDERS
    address = split_address(base if own_protocol else base.rstrip("/").removesuffix("/chat/completions"))
    if address.headers and provider not in _TAKES_USER_INFORMATION:
        raise FatalModelError(
            f"Calls to a model of {provider} cannot carry the user information in its address",
            where=where,
            fix=f"Name it openai/{name} if the endpoint speaks OpenAI's protocol, or give its key in the environment",
        )
    return None if own_protocol and not (options.api_base or address.headers) else address


def _check_kind(spec: str, wanted: str) -> None:
    """Refuse models known to be of another mode: for chat, embedding, image and speech models."""
    entry = table_entry(spec)
    mode = entry.get("mode") if entry is not None else None
    if mode not in (None, wanted) and not (wanted == "chat" and mode in ("completion", "responses")):
        raise FatalModelError(f"{spec} is a {mode} model, not a {wanted} model", fix=f"Name a {wanted} model")


def _placeholder_key(spec: str, api_base: str | None) -> str | None:
    """Return the key to send if the environment has none and none is needed; None: use the environment's.

    Raises:
        FatalModelError: a key is needed and missing.
    """
    provider, _ = split_spec(spec)
    missing = _missing_variables(spec, provider, api_base)
    if not missing or provider in _OTHER_CREDENTIALS:
        key = key_in_environment(spec)
        return key if key and key not in os.environ.values() else None  # LiteLLM would send the blanks around it too.
    if api_base is not None and _speaks_openai(provider):
        return _PLACEHOLDER_KEY
    local = "give" if _speaks_openai(provider) else "name openai/MODEL and give"
    elsewhere = f", {local} --api-base for a local endpoint, or {OFFLINE_WAY}" if api_base is None else ""
    raise FatalModelError(
        f"{spec} needs credentials that are not set",
        where=f"environment: {', '.join(f'{name} is empty' if name in os.environ else name for name in missing)}",
        fix=f"Set {' and '.join(_EXAMPLES.get(name, name) for name in missing)}{elsewhere}",
    )


_EXAMPLES = {
    "AZURE_API_BASE": "AZURE_API_BASE (or --api-base https://RESOURCE.openai.azure.com)",
    "AZURE_API_VERSION": "AZURE_API_VERSION=2024-10-21",
}
"""What a message says in place of a variable's name alone."""


def _missing_variables(spec: str, provider: str, api_base: str | None) -> list[str]:
    """Return the environment variables that `spec` needs and that are not set."""
    if provider in OPENAI_PROVIDERS:
        needed = {f"{provider.upper()}_API_KEY": key_in_environment(spec)}
        if provider == "azure":
            needed |= {
                "AZURE_API_KEY": key_in_environment(spec) or setting("AZURE_AD_TOKEN"),
                "AZURE_API_BASE": endpoint(spec, ModelOptions(api_base)) or "",
                "AZURE_API_VERSION": setting(*AZURE_VERSIONS),
            }
        return [name for name, value in needed.items() if not value]
    litellm = load_litellm()
    _, _, key, usual_base = litellm.get_llm_provider(model=spec)
    if key:
        return []
    missing: list[str] = litellm.validate_environment(model=spec)["missing_keys"]
    if not missing and provider != "openai" and _speaks_openai(provider):
        # LiteLLM's check does not cover these; this is the variable that their clients read.
        missing = [f"{provider.upper().replace('-', '_')}_API_KEY"]
    has_endpoint = api_base is not None or usual_base is not None
    return [name for name in missing if not (has_endpoint and name.endswith("_API_BASE"))]


def _speaks_openai(provider: str) -> bool:
    if provider in OPENAI_PROVIDERS:
        return provider not in ("azure", "openrouter")
    compatible: Sequence[str] = load_litellm().openai_compatible_providers
    return provider in compatible


def _takes_temperature(spec: str, provider: str, name: str) -> bool:
    if is_direct(spec):
        return takes_temperature(provider, name)
    litellm = load_litellm()
    try:
        litellm.get_optional_params(model=name, custom_llm_provider=provider, temperature=0.0)
    except litellm.UnsupportedParamsError:
        return False
    return True


# Models that answer the requests of external memory systems, and the account that pays.


class ModelAccess(Struct, frozen=True):
    """Access lent to an external memory system: models by name, caches, and an account."""

    chat_model: str | None = None
    """The model that answers chat requests; None: they are refused."""
    embedder: str = "hashing"
    """The embedder that answers embedding requests."""
    options: ModelOptions = ModelOptions()
    cache_dir: Path | None = None
    """Folder of the caches; None: nothing is cached."""
    account: Account | None = None
    """Account that records calls and limits their cost."""
    receipts: Receipts | None = None
    """Receipts of paid calls; kept in the caches until a journal has them."""
    concurrency: int = CONCURRENCY
    """Maximum number of concurrent calls."""
    calls_file: Path | None = None
    """File in which searches record their calls."""
