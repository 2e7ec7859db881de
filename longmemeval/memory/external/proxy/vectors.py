"""Answer requests for embeddings with the harness's own embedder and its cache."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.errors import ModelError
from longmemeval.llm.costs import Receipts, vector_length
from longmemeval.llm.tokens import CharacterCounter, encoding_of
from longmemeval.records import Usage

_TOKENS = CharacterCounter()


class Vectorised(Struct, frozen=True):
    """The vectors of one request."""

    rows: Vectors
    tokens: int
    """Tokens as the server counts them, or characters / 4 if no server was called."""
    cached: bool
    """True if nothing was computed."""
    usage: Usage
    request_sha256: str


class Vectoriser:
    """Answers requests one at a time, so that the cost of each is known."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self.embedder = embedder
        self._lock = Lock()
        self._ready = False

    def get_ready(self) -> None:
        """Load a model that runs in this process, which would otherwise be loaded with the first texts.

        Raises:
            HarnessError: it cannot be loaded.
        """
        with self._lock:
            if not self._ready and not self.embedder.is_metered:
                self.embedder.load()
            self._ready = True

    def embed(self, body: Mapping[str, Any], receipts: Receipts | None) -> Vectorised:
        """Return the vectors, after earlier requests are answered.

        Raises:
            ModelError: the request holds no texts, or wants vectors of another length.
            HarnessError: the embedder failed.
        """
        texts = _texts(body.get("input"))
        request = msgspec.json.encode([self.embedder.fingerprint, texts])
        with self._lock:
            self.embedder.receipts = receipts
            paid, computed = self.embedder.usage, self.embedder.misses
            rows = self.embedder.embed(texts)
            usage, cached = self.embedder.usage - paid, self.embedder.misses == computed
        wanted = body.get("dimensions")
        if wanted and int(wanted) != rows.shape[1]:
            raise ModelError(
                f"The memory system wants vectors of {wanted} numbers, {self.embedder.spec} gives {rows.shape[1]}",
                fix="Set its dimension to that, or give `prepare` another --embedder",
            )
        tokens = usage.prompt_tokens or sum(map(_TOKENS.count, texts))
        if self.embedder.is_metered and cached:
            usage = Usage(calls=1, cached_calls=1, prompt_tokens=tokens)
        return Vectorised(rows, tokens, cached, usage, sha256_bytes(request))


def dimension_of(embedder: CachedEmbedder) -> int:
    """Return the length of a vector if it is known without a call; else 0."""
    return embedder.known_dimension or vector_length(embedder.spec.partition(":")[2]) or 0


def _texts(value: object) -> list[str]:
    """Return the texts of a request; those given as tokens, in OpenAI's own encoding, are decoded."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            return list(value)
        if all(isinstance(item, int) for item in value):
            return [_from_tokens(value)]
        if all(isinstance(item, list) and all(isinstance(token, int) for token in item) for item in value):
            return [_from_tokens(tokens) for tokens in value]
    raise ModelError("A request for embeddings holds no texts under 'input'")


def _from_tokens(tokens: Sequence[int]) -> str:
    try:
        return encoding_of("cl100k_base").decode(list(tokens))
    except KeyError as error:
        raise ModelError("A request for embeddings holds tokens of an unknown encoding") from error
