"""What is known of models without a call: providers, their keys and addresses, model names, table entries."""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from longmemeval.core.http import without_proxy_here
from longmemeval.errors import FatalModelError, nearest
from longmemeval.llm.litellm_package import load_environment_file, load_litellm, model_table, provider_names
from longmemeval.llm.options import OFFLINE_WAY


class OpenAIProvider(NamedTuple):
    """A provider that speaks OpenAI's protocol, so that calls need no LiteLLM; all values are LiteLLM's."""

    address: str | None
    """Its own address; None: the user names one."""
    keys: tuple[str, ...]
    """Environment variables of its key; the first one set counts."""
    key: str = ""
    """Sent if none is set; empty: a key is needed."""


_NO_KEY = "fake-api-key"
OPENAI_PROVIDERS = {
    "openai": OpenAIProvider("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "azure": OpenAIProvider(None, ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")),
    "custom_openai": OpenAIProvider(None, ("CUSTOM_OPENAI_API_KEY",)),
    "hosted_vllm": OpenAIProvider(None, ("HOSTED_VLLM_API_KEY",), _NO_KEY),
    "lm_studio": OpenAIProvider(None, ("LM_STUDIO_API_KEY",), _NO_KEY),
    "llamafile": OpenAIProvider("http://127.0.0.1:8080/v1", ("LLAMAFILE_API_KEY",), _NO_KEY),
    "openrouter": OpenAIProvider("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY", "OR_API_KEY")),
    "deepseek": OpenAIProvider("https://api.deepseek.com/beta", ("DEEPSEEK_API_KEY",)),
    "groq": OpenAIProvider("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "together_ai": OpenAIProvider(
        "https://api.together.ai/v1",
        ("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    ),
}
"""A further provider is a further row, if `tests/llm/http/test_both_ways.py` holds for it."""


AZURE_VERSIONS = ("AZURE_API_VERSION", "AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
"""Environment variables of the version of Azure's interface; the first one set counts."""

_COMMAND = "command"


def is_command(spec: str) -> bool:
    """Return whether `spec` names a program of the user's, as `command:claude -p` does."""
    return spec.startswith(f"{_COMMAND}:")


def split_spec(spec: str) -> tuple[str, str]:
    """Return provider and model name, e.g. ("openai", "gpt-4o") for `openai/gpt-4o` and for `gpt-4o`.

    A program's provider is `command`, its name the command line.

    Raises:
        FatalModelError: LiteLLM knows no such provider, nor a model of that bare name.
    """
    if is_command(spec):
        return _COMMAND, spec.removeprefix(f"{_COMMAND}:")
    load_environment_file()
    if not os.environ.get("USE_LITELLM_PROXY"):
        provider, slash, name = spec.partition("/")
        if slash and name and provider in OPENAI_PROVIDERS and not (provider == "azure" and _is_by_others(name)):
            return provider, name
        if not spec.startswith("ft:") and model_table().get(spec, {}).get("litellm_provider") == "openai":
            return "openai", spec
    litellm = load_litellm()
    try:
        name, provider, _, _ = litellm.get_llm_provider(model=spec)
    except litellm.BadRequestError as error:
        raise _unknown(spec, " ".join(str(error).split())) from None
    return str(provider), str(name)


def _is_by_others(name: str) -> bool:
    """Return whether a model of Azure is Cohere's or Mistral's, which LiteLLM calls in another way."""
    table = model_table()
    return f"mistral/{name}" in table or table.get(name, {}).get("litellm_provider") == "cohere_chat"


def table_entry(spec: str) -> Mapping[str, Any] | None:
    """Return the entry of a model in LiteLLM's table on disk; None for an unknown one.

    The entry has prices in USD, windows in tokens, and `mode`. LiteLLM's own look-up is not used, since it calls
    a server for some providers.
    """
    provider, name = split_spec(spec)
    table = model_table()
    for key in (spec, f"{provider}/{name}", name):
        entry = table.get(key)
        # Vertex and Bedrock models are listed under longer names of their provider, such as `bedrock_converse`.
        if entry is not None and str(entry.get("litellm_provider", "")).startswith(provider):
            return entry
    return None


def setting(*names: str) -> str:
    """Return the first of some environment variables that is set, without blanks around it; empty if none is.

    Raises:
        FatalModelError: no header of a request can carry it.
    """
    load_environment_file()
    name = next((name for name in names if os.environ.get(name, "").strip()), "")
    value = os.environ.get(name, "").strip()
    strange = next((sign for sign in value if not (sign.isascii() and sign.isprintable())), "")
    if value[:1] in ("'", '"') and value[-1:] == value[:1]:
        what, fix = "has quotation marks around it", "Set it again without them"
    elif strange:
        what = "has a line break in it" if strange in "\r\n" else f"has the character {strange!r} in it"
        what, fix = f"{what}, which no request can carry", "Copy it again from the provider's page"
    else:
        return value
    raise FatalModelError(f"{name} {what}", where="environment", fix=fix)


def key_in_environment(spec: str) -> str:
    """Return the key used to call a model, if a variable named after its provider holds it; else empty.

    Raises:
        FatalModelError: no header of a request can carry it.
    """
    provider, _ = split_spec(spec)
    if known := OPENAI_PROVIDERS.get(provider):
        return setting(*known.keys) or known.key
    _, provider, key, _ = load_litellm().get_llm_provider(model=spec)
    key = key or os.environ.get(f"{str(provider).upper().replace('-', '_')}_API_KEY", "")
    return setting(*(name for name, value in os.environ.items() if key and value == key)) or key


def account_headers() -> dict[str, str]:
    """Return the headers that name an organization and a project of OpenAI's, as the environment does."""
    variables = {
        "OpenAI-Organization": ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID"),
        "OpenAI-Project": ("OPENAI_PROJECT_ID",),
    }
    return {header: value for header, names in variables.items() if (value := setting(*names))}


def has_price(entry: Mapping[str, Any] | None) -> bool:
    """Return whether a table entry has a price; 0 counts as a price, as for models that run locally."""
    return entry is not None and any(field.startswith("input_cost_per") or field == "tiered_pricing" for field in entry)


def is_unpriced(spec: str) -> bool:
    """Return whether LiteLLM certainly has no price for a model: it is not in the table, by no way of finding it."""
    if is_command(spec):
        return True
    provider, slash, name = spec.partition("/")
    if not slash:
        return spec not in model_table() and not spec.startswith("ft:")
    return provider in OPENAI_PROVIDERS and not name.startswith("ft:") and table_entry(spec) is None


_MORE_KEYS = """
AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK AZURE_OPENAI_API_KEY AZURE_AD_TOKEN
GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS HF_TOKEN HUGGINGFACE_API_KEY OPENAI_BASE_URL OPENAI_API_BASE
OPENAI_ORG_ID OPENAI_ORGANIZATION OPENAI_PROJECT_ID TOGETHER_API_KEY
"""


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys of model providers, for a program that uses models through us.

    `OPENAI_API_KEY` becomes a placeholder, since many clients require it. No proxy is asked for this machine, where our
    server for their calls is.
    """
    providers = (name.upper().replace("-", "_") for name in provider_names())
    keys = {f"{name}_API_KEY" for name in providers} | {*_MORE_KEYS.split()}
    kept = {name: value for name, value in environment.items() if name not in keys}
    return kept | {"OPENAI_API_KEY": "longmemeval"} | without_proxy_here(environment)


def near_models(name: str, provider: str | None = None) -> list[str]:
    """Return up to three chat models from the table with names close to `name`, best first."""
    known = [
        key if provider is None else key.removeprefix(f"{provider}/")
        for key, entry in model_table().items()
        if entry.get("mode") == "chat" and provider in (None, entry.get("litellm_provider"))
    ]
    return difflib.get_close_matches(name, known, n=3)


def _unknown(spec: str, reason: str) -> FatalModelError:
    provider, slash, _ = spec.partition("/")
    names = sorted(provider_names())
    if provider in names and slash:
        return FatalModelError(f"The provider {provider!r} cannot be used: {reason}", where=spec)
    if slash:
        return FatalModelError(f"Unknown model provider {provider!r}", where=spec, fix=nearest(provider, names))
    near = near_models(spec)
    hint = f"{nearest(spec, near)}. " if near else ""
    return FatalModelError(
        f"Unknown model {spec!r}",
        fix=f"{hint}A model is named PROVIDER/NAME, such as openai/gpt-4o; or {OFFLINE_WAY}",
    )


# Families of chat models by their names: a model tends to prefer answers of its own kind.

_FAMILIES: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"(?<![a-z])(?:{pattern})", re.IGNORECASE)
    for name, pattern in {
        "GPT": r"gpt-?[345]|gpt-oss|chatgpt|o[1-9](?:-|$)",
        "Claude": r"claude",
        "Gemini": r"gemini|gemma",
        "Llama": r"(?:meta-|code-?|tiny)?llama",
        "Qwen": r"qwen|qwq",
        "Mistral": r"mistral|mixtral|ministral|magistral|codestral|devstral|pixtral",
        "DeepSeek": r"deepseek",
        "Command": r"command-(?:r|a|light|nightly)|c4ai-command",
        "Grok": r"grok",
        "Phi": r"phi-?[1-9]",
        "Nova": r"nova-(?:micro|lite|pro|premier)",
        "Kimi": r"kimi",
        "GLM": r"(?:chat)?glm-?[1-9]",
    }.items()
}


def model_families(spec: str) -> frozenset[str]:
    """Return the families named in a model's own name; none if it names none.

    A leading provider says nothing by itself: `openai/my-model` may be anything. A distilled model
    (`deepseek-r1-distill-llama-70b`) belongs to two families.

    Args:
        spec: such as `gpt-4o`, `openrouter/anthropic/claude-3.5-sonnet` or `bedrock/us.meta.llama3-1-8b-instruct-v1:0`.
    """
    name = spec.rpartition("/")[2]
    return frozenset(family for family, pattern in _FAMILIES.items() if pattern.search(name))
