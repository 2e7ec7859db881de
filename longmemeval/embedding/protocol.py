"""What an embedding model must offer."""

from collections.abc import Sequence
from typing import Protocol

from longmemeval.core.arrays import Vectors


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
