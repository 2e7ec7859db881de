"""Loading an embedder from the spec that a user writes."""

from pathlib import Path

from msgspec import structs

from longmemeval import plugins
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.protocol import EmbedderKind, EmbedderSettings
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.costs import Account
from longmemeval.llm.options import ModelOptions
from longmemeval.plugins import Registry, found_source_sha256

DEFAULT_EMBEDDER = "hashing"
"""The default embedder of `prepare`; it needs no model and no network."""


def _as_kind(loaded: object) -> object:
    """Wrap an embedder class as a kind that takes nothing after the colon."""
    if isinstance(loaded, type) and hasattr(loaded, "embed"):
        return EmbedderKind(lambda argument, settings: loaded())
    return loaded


EMBEDDERS = Registry[EmbedderKind](plugins.EMBEDDERS, "embedder", EmbedderKind, adapt=_as_kind)


def load_embedder(
    spec: str,
    options: ModelOptions = ModelOptions(),
    *,
    cache_path: Path | None = None,
    account: Account | None = None,
    keyless: bool = False,
) -> CachedEmbedder:
    """Return the embedder that `spec` names. Models and servers are used only once a text is missing.

    Args:
        spec: `hashing[:DIM]`, `fastembed:NAME`, `fastembed:DIR` (a folder with an ONNX model), `openai:MODEL`, a kind
            of another package, or `package.module:Class`.
        options: connection to the endpoint of an embedder on a server; other kinds ignore them.
        cache_path: the SQLite file that caches vectors; None: nothing is cached.
        account: records and limits the calls of such an embedder.
        keyless: True if a key may be missing, because nothing will be called.

    Raises:
        HarnessError: the spec is unknown, a model folder lacks files, a library is not installed, or the cache is
            damaged.
        FatalModelError: `openai:` has neither a key nor an endpoint, or no known price although there is a limit.
    """
    kind, argument = _kind_of(spec)
    if kind.example and not argument:
        name = spec.partition(":")[0]
        raise HarnessError(f"The embedder '{name}' needs a model", where=spec, fix=f"Write it like {kind.example}")
    if spec.endswith(":"):
        raise HarnessError("Nothing follows the colon of the embedder", where=spec, fix=f"Write {spec.rstrip(':')}")
    settings = EmbedderSettings(**structs.asdict(options), account=account, keyless=keyless)
    return CachedEmbedder(kind.make(argument, settings), cache_path)


def is_offline_fallback(spec: str) -> bool:
    """Return whether `spec` names the hashing embedder, whose results say little about dense retrieval."""
    return spec.partition(":")[0] == DEFAULT_EMBEDDER


def is_remote(spec: str) -> bool:
    """Return whether `spec` names an embedder behind a server, whose calls may cost money.

    False for a recorded spec whose package is not installed here, or is broken.
    """
    name = spec.partition(":")[0]
    try:
        return name in EMBEDDERS and EMBEDDERS.get(name).is_remote
    except HarnessError:
        return False


def priced_as(spec: str) -> str | None:
    """Return the name of the model of `spec` in LiteLLM's price list; None if the list does not price it."""
    kind, argument = _kind_of(spec)
    return kind.priced_as(argument) if kind.priced_as else None


def _kind_of(spec: str) -> tuple[EmbedderKind, str]:
    """Return the kind that `spec` names, and the part after the colon."""
    name, _, argument = spec.partition(":")
    if name in EMBEDDERS:
        return EMBEDDERS.get(name), argument
    if argument and found_source_sha256(name):
        return EMBEDDERS.get(spec), ""
    raise HarnessError(f"Unknown embedder '{name}'", where=spec, fix=nearest(name, EMBEDDERS.names()))
