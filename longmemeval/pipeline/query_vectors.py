"""The vectors of questions, by the embedder that made the fixtures."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.arrays import Vector
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.records import Question
from longmemeval.settings import Folders
from longmemeval.spending import Account


class FixtureEmbedder(Struct, frozen=True, omit_defaults=True):
    """The embedder that made the vectors of a preparation, as run manifests tell it."""

    spec: str
    fingerprint: str
    query_prefix: str = ""
    """What is put before a question."""


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
        if self._embedder is None:
            raise HarnessError("This configuration reads no vectors")
        if not self._vectors:
            texts = list(dict.fromkeys(question.text for question in self._questions))
            vectors = self._embedder.embed([self._prefix + one for one in texts])
            self._vectors = dict(zip(texts, vectors, strict=True))
        if text not in self._vectors:
            self._vectors[text] = self._embedder.embed([self._prefix + text])[0]
        return self._vectors[text]


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
    """The vectors of the questions, by the embedder that made the fixtures.

    Args:
        questions: those of the run.
        identity: the embedder as the fixtures tell it; None when no vectors are read.
        override: another spec for the same model (a folder that was moved).
        api_base: endpoint of the chat model; the embedder's may be the same or the environment's.
        where: the folders.
        account: where calls of a remote embedder are written down, and what limits them.
        give_up_after_s: seconds of failures without a success after which its endpoint counts as dead.

    Raises:
        FixtureError: neither of them is the model that made the fixtures.
    """
    if identity is None:
        return QueryVectors(questions, None)
    spec, cache = override or identity.spec, where.cache_dir / "embeddings.sqlite"
    others = []
    for endpoint in dict.fromkeys((api_base, None)):
        embedder = load_embedder(
            spec, cache_path=cache, api_base=endpoint, account=account, give_up_after_s=give_up_after_s
        )
        if embedder.fingerprint == identity.fingerprint:
            return QueryVectors(questions, embedder, identity.query_prefix)
        others.append(f"{embedder.spec} ({embedder.fingerprint})")
    raise FixtureError(
        f"The fixtures were embedded by {identity.spec} ({identity.fingerprint}), "
        f"this is {' or '.join(dict.fromkeys(others))}",
        fix="Name the same model by --embedder, its endpoint by OPENAI_BASE_URL, or prepare again under another --name",
    )
