"""The vectors of questions, by the embedder that made the fixtures."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from longmemeval.arrays import Vector
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.records import Question, Usage
from longmemeval.settings import Folders
from longmemeval.spending import Account

QUERY_EMBEDDINGS = "query_embeddings"
"""Where the totals of a manifest tell what embedding the questions cost."""


class FixtureEmbedder(Struct, frozen=True, omit_defaults=True):
    """The embedder that made the vectors of a preparation, as run manifests tell it."""

    spec: str
    fingerprint: str
    query_prefix: str = ""
    """What is put before a question."""


class VectorSource(Struct, frozen=True):
    """Where the vectors of questions come from; small enough to send to a worker."""

    identity: FixtureEmbedder | None
    """The embedder as the fixtures tell it; None when no vectors are read."""
    override: str | None
    """Another spec for the same model (a folder that was moved)."""
    api_base: str | None
    """Endpoint of the chat model; the embedder's may be the same or the environment's."""
    cache: Path
    """The file with vectors that were computed before."""
    give_up_after_s: float = 120.0
    """Seconds of failures without a success after which the embedder's endpoint counts as dead."""

    def vectors(self, questions: Sequence[Question] = (), account: Account | None = None) -> "QueryVectors":
        """The vectors of `questions`, and of any other text.

        Args:
            questions: embedded in one go when the first is asked for.
            account: where calls of a remote embedder are written down, and what limits them.

        Raises:
            FixtureError: neither the identity nor the override is the model that made the fixtures.
        """
        if self.identity is None:
            return QueryVectors(questions, None)
        others = []
        for endpoint in dict.fromkeys((self.api_base, None)):
            spec = self.override or self.identity.spec
            embedder = load_embedder(
                spec,
                cache_path=self.cache,
                api_base=endpoint,
                account=account,
                give_up_after_s=self.give_up_after_s,
            )
            if embedder.fingerprint == self.identity.fingerprint:
                return QueryVectors(questions, embedder, self.identity.query_prefix)
            others.append(f"{embedder.spec} ({embedder.fingerprint})")
        raise FixtureError(
            f"The fixtures were embedded by {self.identity.spec} ({self.identity.fingerprint}), "
            f"this is {' or '.join(dict.fromkeys(others))}",
            fix="Name the same model by --embedder, its endpoint by OPENAI_BASE_URL, or prepare again under another "
            "--name",
        )


class QueryVectors:
    """Vectors of all questions of a run, embedded in one go when the first is asked for; of other texts one by one.

    Args:
        questions: whose texts may be asked for.
        embedder: the one the fixtures were made with; None when no vectors are read.
        prefix: what the embedder wants before a question.
    """

    def __init__(self, questions: Sequence[Question], embedder: CachedEmbedder | None, prefix: str = "") -> None:
        self._questions = questions
        self._embedder = embedder
        self._prefix = prefix
        self._vectors: dict[str, Vector] = {}

    def __call__(self, text: str) -> Vector:
        """The vector of a text, shape (dimension,)."""
        if not self._vectors:
            self.embed(question.text for question in self._questions)
        if text not in self._vectors:
            self.embed([text])
        return self._vectors[text]

    def embed(self, texts: Iterable[str]) -> None:
        """Embed `texts` in one go, those that are not embedded yet; they will be asked for."""
        if self._embedder is None:
            raise HarnessError("This configuration reads no vectors")
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if not new:
            return
        vectors = self._embedder.embed([self._prefix + text for text in new])
        self._vectors |= zip(new, vectors, strict=True)

    def totals(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """What the totals of a manifest tell of the embeddings; nothing of an embedder that asks no server.

        Args:
            before: the manifest's totals as an earlier session of the run left them.
        """
        if self._embedder is None or not self._embedder.is_metered:
            return {}
        earlier = convert(before.get(QUERY_EMBEDDINGS, {}), Usage)
        return {QUERY_EMBEDDINGS: to_builtins(earlier + self._embedder.usage)}


def query_vectors(
    questions: Sequence[Question],
    identity: FixtureEmbedder | None,
    override: str | None,
    api_base: str | None,
    where: Folders,
    *,
    account: Account | None = None,
    give_up_after_s: float = 120.0,
) -> QueryVectors:
    """The vectors of `questions`, see `VectorSource`, computed ones kept beside the fixtures."""
    cache = where.cache_dir / "embeddings.sqlite"
    return VectorSource(identity, override, api_base, cache, give_up_after_s).vectors(questions, account)
