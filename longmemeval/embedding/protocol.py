"""The protocol of embedding models, and the kinds of embedder that a spec can name."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.errors import ModelError
from longmemeval.llm.costs import Account
from longmemeval.llm.options import ModelOptions


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def spec(self) -> str:
        """The embedder as the user names it, e.g. `hashing:512` or `fastembed:models/minilm`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Text that identifies everything that can change a vector (model bytes, dimension, pooling): the cache key."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed `texts`.

        Returns:
            Array of shape (len(texts), dimension), float32, rows of length 1 (a text without any feature may
            give a zero row). A row depends on its own text only, never on the others in the call: this makes
            fixtures byte-identical whatever was cached before.
        """
        ...


class TooManyTextsError(ModelError):
    """The texts of one call were too many; the embedder's `batches` are smaller from now on."""


class EmbedderSettings(ModelOptions, frozen=True, kw_only=True):
    """Connection and cost settings of an embedder; one that runs here only asks whether it may download its model."""

    account: Account | None = None
    """Records and limits its calls."""
    keyless: bool = False
    """True if a key may be missing because nothing is called: costs are only estimated."""
    downloads: bool = True
    """False if a local model that is not on this machine must not be downloaded."""


class EmbedderKind(Struct, frozen=True):
    """One kind of embedder: the part before the colon of a spec such as `fastembed:NAME`.

    Other packages register theirs in the entry-point group `longmemeval.embedders`, as an `EmbedderKind`, or as an
    `Embedder` class that takes no arguments.
    """

    make: Callable[[str, EmbedderSettings], Embedder]
    """Creates the embedder of a spec from the part after the colon (empty without one) and the settings."""
    example: str = ""
    """A working spec, if the kind needs a part after the colon."""
    is_remote: bool = False
    """True if it calls a server, so that embedding may cost money."""
    priced_as: Callable[[str], str] | None = None
    """Name of the part after the colon in LiteLLM's price list; None: embedding is free, or its cost is not known in
    advance."""
