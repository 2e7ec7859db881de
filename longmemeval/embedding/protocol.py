"""What an embedding model must offer, and how one becomes a kind of embedder that a spec can name."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.defaults import GIVE_UP_AFTER_S
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.rates.limits import RateLimits


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def spec(self) -> str:
        """How the user names it, e.g. `hashing:512` or `fastembed:models/minilm`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names everything that can change a vector (model bytes, dimension, pooling): the cache key."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed `texts`.

        Returns:
            Array of shape (len(texts), dimension), float32, rows of length 1 (a text without any feature may
            give a zero row). A row depends on its own text only, never on the others in the call: that is what
            makes fixtures byte-identical whatever was cached before.
        """
        ...


class EmbedderSettings(Struct, frozen=True):
    """How an embedder behind a server is reached, and what it may cost; the others need none of it."""

    api_base: str | None = None
    """The endpoint."""
    account: Account | None = None
    """Where its calls are written down, and what limits them."""
    give_up_after_s: float = GIVE_UP_AFTER_S
    """Seconds of failures without a success after which the endpoint counts as dead."""
    rates: RateLimits = RateLimits()
    """Requests and tokens per minute that the endpoint takes."""


class EmbedderKind(Struct, frozen=True):
    """One kind of embedder: what stands before the colon of a spec such as `fastembed:NAME`.

    Other packages register theirs in the entry-point group `longmemeval.embedders`, as an `EmbedderKind`, or as a class
    that is made without arguments and is an `Embedder`.
    """

    make: Callable[[str, EmbedderSettings], Embedder]
    """Make the embedder of a spec from what follows the colon (empty without one)."""
    example: str = ""
    """A spec that works, where something has to follow the colon."""
    is_remote: bool = False
    """Whether it calls a server, so that embedding may cost money."""
    priced_as: Callable[[str], str] | None = None
    """The name that LiteLLM's price list has for what follows the colon; None: embedding costs nothing, or an amount
    that cannot be known beforehand."""
