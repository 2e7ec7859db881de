"""Common parts with vectors: the format of `vector.json`, and the embedding of questions."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from longmemeval.core.part_options import PartOptions
from longmemeval.records import Message
from longmemeval.storage.parts import FixtureEmbedder, Part, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import EmbedderIdentity, VectorIndex, VectorItem

_ITEM_BYTES = 58
"""Indented JSON: bytes of an index item besides its ids."""

TOLERANCE = 1e-3
"""Difference of two numbers of a vector up to which machines may round differently."""


class VectorsPart(Part[VectorIndex]):
    """One index over texts derived from the haystack or from needed parts."""

    embeds = True
    index_name: str

    @abstractmethod
    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return the items that get a vector, and the text of each, without a prefix."""

    def text_recipe(self, options: PartOptions) -> dict[str, Any]:
        """Return the recipe's entries about the texts."""
        return {}

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return embedder, texts and prefixes."""
        base = {"version": 1, "embedder": tools.embedder.fingerprint, "index": "exact"}
        return {**base, **self.text_recipe(tools.options), **_prefixes(tools.options)}

    def texts(self, source: PartInput, options: PartOptions) -> Sequence[str]:
        """Return the texts with their prefix."""
        return [options.document_prefix + text for text in self.entries(source, options)[1]]

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Build the index, without a graph."""
        options = tools.options
        items = self.entries(source, options)[0]
        vectors = tools.embed(texts := self.texts(source, options))
        same = len(set(texts)) > 1 and all(np.array_equal(row, vectors[0]) for row in vectors)
        told = f"all vectors of part '{self.name}' are equal, so similarity tells no texts apart; check the embedder"
        made_by = EmbedderIdentity(tools.embedder.spec, tools.embedder.fingerprint)
        index = VectorIndex.of(self.index_name, items, vectors, made_by)
        del vectors  # The index has its own copy; for a large haystack both take much memory.
        return PartOutput(index.persist(), notes=(told,) if same else ())

    def open(self, stored: Stored) -> VectorIndex:
        """Open the index.

        Raises:
            FixtureError: it is damaged.
        """
        return VectorIndex.hydrate(stored.data(), stored.where)

    def embedder(self, stored: Stored) -> FixtureEmbedder:
        """Return the embedder recorded in file and recipe."""
        made_by = stored.part(self).embedder
        prefix = stored.info.recipe.get("query_prefix", "") if stored.info else ""
        return FixtureEmbedder(made_by.spec, made_by.fingerprint, prefix)

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate from the file format; if the texts are not known yet, one per message is assumed."""
        known = all(source.holds(need) for need in self.needs)
        items: Sequence[VectorItem | Message] = self.entries(source, options)[0] if known else source.messages
        names = sum(2 * len(item.thread_id) + 2 for item in items)
        return len(items) * (4 * dimension * 4 / 3 + _ITEM_BYTES - 15) + names

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return embedder and prefixes of the existing one."""
        if stored is None or stored.info is None:
            return {}
        recipe, embedder = stored.info.recipe, self.embedder(stored)
        prefixes = {str(name): str(recipe[name]) for name in ("query_prefix", "document_prefix") if name in recipe}
        return {"embedder": embedder.spec, **prefixes}

    def agrees(self, stored: bytes, made: bytes) -> bool:
        """Return whether items and embedder are the same, and all numbers within `TOLERANCE`."""
        have, again = (VectorIndex.hydrate(data, self.name) for data in (stored, made))
        same = (have.items, have.embedder.fingerprint) == (again.items, again.embedder.fingerprint)
        return same and have.dimension == again.dimension and np.allclose(have.vectors, again.vectors, 0, TOLERANCE)

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Report if `meta.json` names another embedder."""
        made_by = self.embedder(stored).fingerprint
        recorded = stored.info.recipe.get("embedder") if stored.info else None
        if made_by != recorded:
            yield f"names the embedder '{recorded}', {self.name}.json says '{made_by}'"


def _prefixes(options: PartOptions) -> dict[str, str]:
    """Return the prefixes that are set; recipes omit empty ones."""
    both = {"query_prefix": options.query_prefix, "document_prefix": options.document_prefix}
    return {name: prefix for name, prefix in both.items() if prefix}
