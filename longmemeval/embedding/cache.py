"""An embedder that caches its vectors, in a file shared by all processes."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np
from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.caches import cache_key, only_maker_blocking, open_cache
from longmemeval.embedding.protocol import Embedder, TooManyTextsError
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import Receipts
from longmemeval.records import Usage

CHUNK_TEXTS = 256
_POLL_S = 0.02
_STORED = np.dtype("<f4")


@runtime_checkable
class Metered(Protocol):
    """An embedder whose calls cost money."""

    @property
    def usage(self) -> Usage:
        """Cost of its calls so far."""
        ...


@runtime_checkable
class Light(Protocol):
    """An embedder that states whether creating it from its spec is instant and uses no server and no model.

    Such an embedder may be created again wherever there is something to embed.
    """

    is_light: bool


@runtime_checkable
class Batching(Protocol):
    """An embedder that sends texts to a server in batches."""

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of the texts of each call, without texts that need no call."""
        ...


class EmbeddedTexts(Struct, frozen=True):
    """Numbers of embedded texts: from the cache, computed, and damaged in the cache."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0

    def __add__(self, other: "EmbeddedTexts") -> "EmbeddedTexts":
        return EmbeddedTexts(self.hits + other.hits, self.misses + other.misses, self.damaged + other.damaged)


class CachedEmbedder:
    """Looks texts up under the embedder's fingerprint and computes the missing ones; itself an `Embedder`.

    Every finished chunk (one call to a server, or `CHUNK_TEXTS` texts) is stored at once, so that an interrupted
    `embed` keeps its paid vectors. Threads that share an object wait for each other; for parallel calls give each
    worker its own on the same file.

    Args:
        embedder: computes the vectors.
        cache_path: the SQLite file; None: nothing is cached, nor are vectors of a `Light` embedder.

    Attributes:
        spec: the embedder's spec.
        fingerprint: the embedder's fingerprint.
        hits: texts found so far, in the file or earlier in the same call.
        misses: texts computed so far.
        receipts: records paid calls with their vectors; None: they are not recorded.

    Raises:
        HarnessError: the cache file is damaged.
    """

    def __init__(self, embedder: Embedder, cache_path: Path | None = None) -> None:
        self.spec = embedder.spec
        self.fingerprint = embedder.fingerprint
        self.hits = 0
        self.misses = 0
        self._damaged_elsewhere = 0
        self.receipts: Receipts | None = None
        self._embedder = embedder
        # Storing a vector of a light embedder takes as long as computing it.
        self._cache = open_cache(cache_path) if cache_path and not self.is_light else None
        # Also stored in the file: a remote model would have to be called, but a full cache must work without the
        # network.
        self._dimension_key = cache_key(self.fingerprint)
        self._lock = Lock()

    def load(self) -> None:
        """Make the embedder load everything that its first text would wait for; cache and count nothing."""
        self._embedder.embed(["ready"])

    @property
    def dimension(self) -> int:
        """Length of a vector; read from the file if the embedder would need a call to know it."""
        if known := self._stored_dimension:
            return known
        paid = self.usage
        dimension = self._embedder.dimension
        if self.usage != paid:
            self._store({}, dimension, paid)
        return dimension

    @property
    def known_dimension(self) -> int | None:
        """Length of a vector; None if it would take a paid call to know it."""
        return self._stored_dimension or (None if self.is_metered else self._embedder.dimension)

    @property
    def _stored_dimension(self) -> int | None:
        stored = self._cache.get_many([self._dimension_key]) if self._cache else {}
        return next((int.from_bytes(value, "little") for value in stored.values()), None)

    @property
    def damaged(self) -> int:
        """Number of vectors found damaged in the file so far; they were computed again."""
        return self._damaged_elsewhere + (self._cache.damaged if self._cache else 0)

    def count(self, elsewhere: "EmbeddedTexts") -> None:
        """Add the counts of another object on the same file, for example in a worker."""
        self.hits += elsewhere.hits
        self.misses += elsewhere.misses
        self._damaged_elsewhere += elsewhere.damaged

    @property
    def embedded(self) -> "EmbeddedTexts":
        """Counts of texts embedded so far."""
        return EmbeddedTexts(self.hits, self.misses, self.damaged)

    def close(self) -> None:
        """Close the file."""
        if self._cache:
            self._cache.close()

    @property
    def is_metered(self) -> bool:
        """True if its calls cost money."""
        return isinstance(self._embedder, Metered)

    @property
    def is_light(self) -> bool:
        """True if each worker may create its own, see `Light`."""
        return isinstance(self._embedder, Light) and self._embedder.is_light

    @property
    def usage(self) -> Usage:
        """Cost of remote calls so far; zero for a local embedder."""
        return self._embedder.usage if isinstance(self._embedder, Metered) else Usage()

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Vectors:
        """Embed `texts`; see `Embedder.embed`.

        Args:
            texts: any number of texts; each distinct one is computed once.
            on_progress: called with the number of `texts` finished so far: once after the look-up, then per chunk.

        Raises:
            HarnessError: the embedder failed; finished chunks are kept.
        """
        with self._lock:
            return self._embed(texts, on_progress or (lambda finished: None))

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct `texts` that `embed` would have to compute, in order; computes and counts nothing."""
        with self._lock:
            distinct = list(dict.fromkeys(texts))
            found = self._look_up(distinct)
            return [text for text in distinct if text not in found]

    def _embed(self, texts: Sequence[str], on_progress: Callable[[int], None]) -> Vectors:
        counts = Counter(texts)
        rows = self._look_up(list(counts))
        missing = [text for text in counts if text not in rows]
        finished = sum(counts[text] for text in rows)
        self.hits += len(texts) - len(missing)
        on_progress(finished)
        while missing:
            with self._claimed(missing) as own:
                for chunk in self._chunks(own):
                    rows |= self._compute(chunk)
                    self.misses += len(chunk)
                    finished += sum(counts[text] for text in chunk)
                    on_progress(finished)
            if missing := [text for text in missing if text not in rows]:
                # Another worker is embedding them, or has just done so.
                if not own:
                    time.sleep(_POLL_S)
                rows |= (found := self._look_up(missing))
                self.hits += len(found)
                finished += sum(counts[text] for text in found)
                on_progress(finished)
                missing = [text for text in missing if text not in found]
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = rows[text]
        return vectors

    @contextmanager
    def _claimed(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield the `texts` that no other worker is embedding, and keep others from embedding them."""
        if self._cache is None:
            yield texts
            return
        keys = {cache_key(self.fingerprint, text): text for text in texts}
        with ExitStack() as stack:
            if self.is_metered:
                # If several processes need the same texts, only one pays for them.
                stack.enter_context(only_maker_blocking(self._cache, cache_key(self.fingerprint, *texts)))
                there = self._cache.get_many(list(keys))
                keys = {key: text for key, text in keys.items() if key not in there}
            own = self._cache.claim(list(keys))
            if own:
                stack.callback(self._cache.release, own)
            yield [keys[key] for key in own]

    def _look_up(self, texts: list[str]) -> dict[str, Vectors]:
        if not self._cache:
            return {}
        keys = {cache_key(self.fingerprint, text): text for text in texts}
        found = self._cache.get_many(list(keys))
        length = self.dimension * _STORED.itemsize if found else 0
        rows = {}
        for key, value in found.items():
            if len(value) == length:
                rows[keys[key]] = np.frombuffer(value, _STORED)
            else:
                self._cache.discard_damaged(key, value)
        return rows

    def _chunks(self, texts: list[str]) -> Iterator[list[str]]:
        if isinstance(self._embedder, Batching):
            rest = set(range(len(texts)))
            for batch in self._embedder.batches(texts):
                rest.difference_update(batch)
                yield [texts[place] for place in batch]
            texts = [texts[place] for place in sorted(rest)]
        for start in range(0, len(texts), CHUNK_TEXTS):
            yield texts[start : start + CHUNK_TEXTS]

    def _compute(self, texts: list[str]) -> dict[str, Vectors]:
        paid = self.usage
        try:
            vectors = self._embedder.embed(texts)
        except TooManyTextsError:
            smaller: dict[str, Vectors] = {}
            for chunk in self._chunks(texts):
                smaller |= self._compute(chunk)
            return smaller
        rows = dict(zip(texts, vectors, strict=True))
        if fault := self._fault(texts, vectors):
            self._store({}, vectors.shape[1], paid)
            fix = "Check the model behind this name; none of these vectors is kept"
            raise HarnessError(f"The embedder gives {fault}", where=self.spec, fix=fix)
        if self._cache:
            size = vectors.shape[1]
            if size != self.dimension:
                self._store({}, self.dimension, paid)
                raise HarnessError(
                    f"The embedder gives {size} numbers per text but gave {self.dimension} before: the name now stands"
                    " for another model",
                    where=f"{self.spec}, {self._cache.path}",
                    fix="Delete the cache file",
                )
            self._store(rows, size, paid)
        return rows

    def _fault(self, texts: list[str], vectors: Vectors) -> str:
        """Return what no model gives for texts, if this one gives it; empty if it does not."""
        zero = ~vectors.any(axis=1) & np.array([self.is_metered and bool(text.strip()) for text in texts])
        for what, wrong in (("NaN or infinity", ~np.isfinite(vectors).all(axis=1)), ("only zeros", zero)):
            if wrong.any():
                text = texts[int(wrong.argmax())]
                return f"{what} as the vector of {wrong.sum():,} of {len(texts):,} texts, such as {text[:60]!r}"
        return ""

    def _store(self, rows: dict[str, Vectors], dimension: int, paid: Usage) -> None:
        """Store vectors with their receipt; `paid` is the cost of all calls before them."""
        if self._cache is None:
            return
        values = {cache_key(self.fingerprint, text): row.astype(_STORED).tobytes() for text, row in rows.items()}
        values[self._dimension_key] = dimension.to_bytes(4, "little")
        if self.receipts and self.usage != paid:
            self.receipts.store(self._cache, values, self.usage - paid)
        else:
            self._cache.put_many(values)
