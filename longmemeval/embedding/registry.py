"""From the spec a user writes to an embedder."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from longmemeval.core.caches.served import is_worker
from longmemeval.core.defaults import GIVE_UP_AFTER_S
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.protocol import Embedder
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.rates.limits import RateLimits

DEFAULT_EMBEDDER = "hashing"
"""What `prepare` takes where none is named; needs no model and no network."""
KINDS = (DEFAULT_EMBEDDER, "fastembed", "openai")


def load_embedder(
    spec: str,
    *,
    cache_path: Path | None = None,
    api_base: str | None = None,
    account: Account | None = None,
    give_up_after_s: float = GIVE_UP_AFTER_S,
    rates: RateLimits = RateLimits(),
) -> CachedEmbedder:
    """The embedder that `spec` names. Models are loaded, and servers called, when the first text is missing.

    Args:
        spec: `hashing[:DIM]`, `fastembed:NAME`, `fastembed:DIR` (a folder with an ONNX model) or `openai:MODEL`.
        cache_path: the SQLite file that remembers vectors; None: nothing is remembered.
        api_base: the endpoint for `openai:`; the other kinds have none and do not look at it.
        account: where the calls of `openai:` are written down, and what limits them.
        give_up_after_s: seconds of failures without a success after which the endpoint of `openai:` counts as dead.
        rates: requests and tokens per minute that endpoint takes.

    Raises:
        HarnessError: the spec names nothing, a model folder lacks files, a library is not installed, or the cache is
            damaged.
        FatalModelError: `openai:` has neither a key nor an endpoint, or no known price where there is a limit.
    """

    def remote(model: str) -> Embedder:
        from longmemeval.embedding.remote import RemoteEmbedder

        return RemoteEmbedder(model, api_base, account=account, give_up_after_s=give_up_after_s, rates=rates)

    return CachedEmbedder(_make(spec, remote), cache_path)


def is_offline_fallback(spec: str) -> bool:
    """Whether `spec` names the hashing embedder, whose results say little about dense retrieval."""
    return spec.partition(":")[0] == DEFAULT_EMBEDDER


def is_remote(spec: str) -> bool:
    """Whether `spec` names an embedder behind a server, whose calls may cost money."""
    return spec.startswith("openai:")


def _make(spec: str, remote: Callable[[str], Embedder]) -> Embedder:
    kind, colon, argument = spec.partition(":")
    if kind not in KINDS:
        raise HarnessError(f"There is no embedder of the kind '{kind}'", where=spec, fix=nearest(kind, KINDS))
    if kind == DEFAULT_EMBEDDER:
        return _hashing(spec, argument if colon else None)
    if not argument:
        example = "fastembed:BAAI/bge-small-en-v1.5" if kind == "fastembed" else "openai:text-embedding-3-small"
        raise HarnessError(f"The embedder '{kind}' needs a model", where=spec, fix=f"Write it like {example}")
    if kind == "openai":
        return remote(argument)
    from longmemeval.embedding.local import LocalEmbedder

    return _kept(argument) if is_worker() else LocalEmbedder(argument)


@lru_cache(maxsize=1)
def _kept(model: str) -> Embedder:
    """A local model that many tasks of this process embed with; it is loaded once."""
    from longmemeval.embedding.local import LocalEmbedder

    return LocalEmbedder(model)


def _hashing(spec: str, dimension: str | None) -> Embedder:
    if dimension is None:
        return HashingEmbedder()
    if not (dimension.isascii() and dimension.isdigit()):
        raise HarnessError("The dimension is not a whole number", where=spec, fix="Write it like hashing:512")
    return HashingEmbedder(int(dimension))
