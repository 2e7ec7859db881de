"""Cross-encoders, which read the question and a text together, and reordering a ranking by them."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.installation import install_command
from longmemeval.embedding.local import folder_digest, named_model
from longmemeval.errors import HarnessError, nearest, needed

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

KIND = "fastembed"
_EXAMPLE = "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"
_FOLDER_MODEL = "longmemeval-reranker-"
_BY_FOLDER = "Name a folder with the model: --set reranker=fastembed:FOLDER"


class Reranker(Protocol):
    """Scores how well each of a few texts answers a query."""

    @property
    def spec(self) -> str:
        """The reranker as the user names it, e.g. `fastembed:Xenova/ms-marco-MiniLM-L-6-v2`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies everything that can change a score."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Score `texts` for `query`.

        Returns:
            Array of shape (len(texts),), higher is better; scores of different queries are not comparable. A score
            depends on the query and its own text only, never on the other texts.
        """
        ...


def load_reranker(spec: str, downloads: bool = True) -> Reranker:
    """Return the reranker that `spec` names, ready to score texts.

    Args:
        spec: `fastembed:NAME` (a cross-encoder that fastembed knows and downloads) or `fastembed:DIR` (a folder that
            holds `FOLDER_FILES`).
        downloads: False if a model that is not on this machine must not be downloaded.

    Raises:
        HarnessError: the spec is unknown, fastembed is not installed, the folder lacks files, or the model cannot be
            loaded or downloaded.
    """
    kind, _, argument = spec.partition(":")
    if kind != KIND:
        raise HarnessError(f"Unknown reranker '{kind}'", where=spec, fix=nearest(kind, [KIND]))
    if not argument:
        raise HarnessError(f"The reranker '{kind}' needs a model", where=spec, fix=f"Write it like {_EXAMPLE}")
    reranker = LocalReranker(argument, downloads)
    _ = reranker.model
    return reranker


def rerank(order: Sequence[int], texts: Sequence[str], query: str, reranker: Reranker, depth: int) -> list[int]:
    """Reorder the first `depth` positions of a ranking by the reranker's scores.

    Args:
        order: positions of units, best first.
        texts: text of every unit, by position.
        query: search text.
        reranker: scores the first `depth` texts; equal scores keep their order.
        depth: number of texts to score; 0 leaves the ranking unchanged.
    """
    head, tail = list(order[:depth]), list(order[depth:])
    if not head:
        return tail
    scores = reranker.scores(query, [texts[place] for place in head])
    return [head[i] for i in np.argsort(-scores, kind="stable")] + tail


class LocalReranker:
    """A cross-encoder that runs in this process through fastembed.

    The pair of query and text is truncated to the model's own window (512 tokens for most). One text is one batch, so
    that its score cannot depend on the padding its neighbours need; `LocalEmbedder` explains why this costs nothing.

    Args:
        argument: the part of the spec after `fastembed:`: a folder that holds `FOLDER_FILES`, or a model's name.
        downloads: False if a model that is not on this machine must not be downloaded.

    Raises:
        HarnessError: fastembed is not installed, the folder lacks files, or the name is not known.
    """

    def __init__(self, argument: str, downloads: bool = True) -> None:
        self._downloads = downloads
        names = _supported_models()
        folder = Path(argument).expanduser()
        self.spec = f"{KIND}:{argument}"
        self._folder: Path | None = None
        if folder.is_dir():
            digest = folder_digest(folder)
            self._folder = folder
            self._model_name = _FOLDER_MODEL + digest
            self.fingerprint = f"onnx-reranker:{digest}"
        elif argument.lower() in names:
            self._model_name = names[argument.lower()]
            self.fingerprint = f"fastembed-{version('fastembed')}:{self._model_name}"
        else:
            raise HarnessError(
                f"'{argument}' is neither a folder nor a reranker that fastembed knows",
                where=self.spec,
                fix=nearest(argument, names.values()),
            )

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Score `texts` for `query`; see `Reranker.scores`.

        Raises:
            HarnessError: the model cannot be loaded, or returns scores that are not finite.
        """
        if not texts:
            return np.zeros(0)
        scores = np.fromiter(self.model.rerank(query, texts, batch_size=1), dtype=np.float64, count=len(texts))
        if not np.isfinite(scores).all():
            what = "The reranker returned scores that are not finite numbers"
            raise HarnessError(what, where=self.spec, fix="Use another reranker")
        return scores

    @cached_property
    def model(self) -> "TextCrossEncoder":
        """The fastembed model, loaded on first use."""
        try:
            model = _loaded(self._model_name, self._folder, self._downloads)
            list(model.rerank("A question?", ["A text."]))
        except HarnessError:
            raise
        except Exception as error:  # The underlying libraries raise many kinds: file, protobuf, graph.
            raise HarnessError(
                f"The reranker cannot be used: {' '.join(str(error).split())[:300]}",
                where=self.spec,
                fix="model.onnx must be a cross-encoder with one score per text" if self._folder else _BY_FOLDER,
            ) from error
        return model


@lru_cache(maxsize=1)
def _loaded(model_name: str, folder: Path | None, downloads: bool) -> "TextCrossEncoder":
    """Return a fastembed model, loaded once in a process; one in a folder has the folder's digest in its name."""
    from fastembed.common.model_description import ModelSource
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    if folder is None:
        return named_model(TextCrossEncoder, model_name, _BY_FOLDER, downloads)
    if model_name not in {model["model"] for model in TextCrossEncoder.list_supported_models()}:
        TextCrossEncoder.add_custom_model(
            model=model_name, sources=ModelSource(url="never-downloaded"), model_file="model.onnx"
        )
    return TextCrossEncoder(model_name, specific_model_path=str(folder))


def _supported_models() -> dict[str, str]:
    """Return the cross-encoders fastembed knows: lower-cased name to name."""
    with needed("Rerankers need the fastembed library", f"Run: {install_command('local')}"):
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    names = [str(model["model"]) for model in TextCrossEncoder.list_supported_models()]
    return {name.lower(): name for name in names if not name.startswith(_FOLDER_MODEL)}
