"""Local ONNX embedding models through the fastembed library: by name, or from a private folder."""

import logging
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import numpy as np

from longmemeval.core.arrays import Vectors
from longmemeval.core.caches import is_worker
from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.http import proxy_for
from longmemeval.core.installation import install_command
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.embedding.protocol import EmbedderKind, EmbedderSettings
from longmemeval.errors import HarnessError, nearest, needed

if TYPE_CHECKING:
    from fastembed import TextEmbedding

FOLDER_FILES = ("model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json", "special_tokens_map.json")
_FOLDER_MODEL = "longmemeval-folder-"
_LOG = logging.getLogger(__name__)
M = TypeVar("M")


class LocalEmbedder:
    """A model that runs in this process; loaded when the first text is embedded.

    Texts are passed to the model unchanged: no "query:" or "passage:" is prepended. Nor does fastembed prepend one: its
    `query_embed` and `passage_embed` are the same as `embed`, except for a model with an adapter for each
    (jina-embeddings-v3). Such a model is refused: it would embed questions as passages. A text longer than the
    model's own window (512 tokens for all-MiniLM-L6-v2 as fastembed reads its tokenizer) is truncated by the model;
    that is a property of the model, which the spec records.

    One text is one batch. Padding a batch to its longest text costs more than batching gains on chat turns, whose
    lengths differ widely, and a model with dynamic quantisation may take one scale for a whole batch, so that a row
    would depend on its neighbours. `scripts/benchmarks/embedding.py` measures it: on two cores, 150 turns through an
    int8 all-MiniLM-L6-v2 in batches of 64 in file order took 5 to 10 times as long as one by one, and no size of batch
    on turns sorted by length was faster than one by one.

    Args:
        argument: the part of the spec after `fastembed:`: a folder that holds `FOLDER_FILES` (mean pooling, rows of
            length 1), or the name of a model that fastembed knows and can download.
        downloads: False if a model that is not on this machine must not be downloaded.

    Raises:
        HarnessError: fastembed is not installed, the folder lacks files, or the name is not known or refused.
    """

    def __init__(self, argument: str, downloads: bool = True) -> None:
        self._downloads = downloads
        names = _supported_models()
        folder = Path(argument).expanduser()
        self.spec = f"fastembed:{argument}"
        self._folder: Path | None = None
        if folder.is_dir():
            digest = folder_digest(folder, hint="; scripts/get_minilm builds one")
            self._folder = folder
            self._model_name = _FOLDER_MODEL + digest
            self.dimension = _hidden_size(folder / "config.json")
            self.fingerprint = f"onnx:{digest}:mean:normalised"
        elif argument.lower() in names:
            model = names[argument.lower()]
            if model.get("tasks"):
                raise HarnessError(
                    f"'{argument}' embeds questions and passages with different adapters, which is not supported",
                    where=self.spec,
                    fix="Choose a model that embeds both the same way",
                )
            self._model_name, self.dimension = model["model"], model["dim"]
            self.fingerprint = f"fastembed-{version('fastembed')}:{self._model_name}"
        else:
            raise HarnessError(
                f"'{argument}' is neither a folder nor a model that fastembed knows",
                where=self.spec,
                fix=nearest(argument, (model["model"] for model in names.values())),
            )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed `texts`; see `Embedder.embed`.

        Raises:
            HarnessError: the model cannot be loaded or contradicts its folder's configuration.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        if texts:
            for row, vector in zip(vectors, self.model.embed(list(texts), batch_size=1), strict=True):
                row[:] = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return vectors

    @cached_property
    def model(self) -> "TextEmbedding":
        """The fastembed model, loaded on first use."""
        try:
            model = self._load()
            (vector,) = model.embed(["A text."])
        except HarnessError:
            raise
        except Exception as error:  # the underlying libraries raise many kinds: file, protobuf, graph
            raise HarnessError(
                f"The embedding model cannot be used: {' '.join(str(error).split())[:300]}",
                where=self.spec,
                fix="model.onnx must be a text encoder made for mean pooling" if self._folder else _BY_FOLDER,
            ) from error
        if vector.shape != (self.dimension,):
            raise HarnessError(
                f"The embedding model gives vectors of shape {vector.shape}, not ({self.dimension},)",
                where=self.spec,
                fix="Put the config.json that belongs to model.onnx into the folder",
            )
        return model

    def _load(self) -> "TextEmbedding":
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        if self._folder is None:
            return named_model(TextEmbedding, self._model_name, _BY_FOLDER, self._downloads)
        if self._model_name not in {model["model"] for model in TextEmbedding.list_supported_models()}:
            TextEmbedding.add_custom_model(
                model=self._model_name,
                pooling=PoolingType.MEAN,
                normalization=True,
                sources=ModelSource(url="never-downloaded"),
                dim=self.dimension,
                model_file="model.onnx",
            )
        return TextEmbedding(self._model_name, specific_model_path=str(self._folder))


def _supported_models() -> dict[str, dict[str, Any]]:
    """Return the models fastembed knows: lower-cased name to its own description."""
    with needed("Local embedding models need the fastembed library", f"Run: {install_command('local')}"):
        from fastembed import TextEmbedding
    models = TextEmbedding.list_supported_models()
    return {model["model"].lower(): model for model in models if not model["model"].startswith(_FOLDER_MODEL)}


_BY_FOLDER = "Name a folder with the model: --embedder fastembed:FOLDER"


def named_model(kind: type[M], name: str, fix: str, downloads: bool) -> M:
    """Return a model that fastembed knows: from this machine, or downloaded once, which is logged.

    Args:
        kind: the class of fastembed that loads it.
        fix: how to do without a download.
        downloads: False if it must not be downloaded.

    Raises:
        HarnessError: it is not on this machine, and cannot or must not be downloaded.
    """
    from fastembed.common.utils import define_cache_dir
    from loguru import logger

    logger.disable("fastembed")  # Its failures are our errors.
    library: Any = kind
    model = library._get_model_description(name)
    load = partial(library, name, local_files_only=True)
    try:
        return cast(M, load())
    except ValueError:  # fastembed's own
        if not downloads:
            raise HarnessError(f"The model '{name}' is not on this machine", fix=fix) from None
    _LOG.warning("Downloading the model %s (%.2f GB), once", name, model.size_in_GB)
    try:
        # Its constructor would try three times, with pauses of 3 to 27 seconds.
        library.download_files_from_huggingface(
            model.sources.hf, str(define_cache_dir()), [model.model_file, *model.additional_files]
        )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        what = f"The model '{name}' is not on this machine and cannot be downloaded: {reason}"
        raise HarnessError(what, where=f"huggingface.co{proxy_for('https://huggingface.co')}", fix=fix) from error
    return cast(M, load())


def folder_digest(folder: Path, *, hint: str = "") -> str:
    """Return the hash of all files of a local ONNX model, in the order of `FOLDER_FILES`.

    Args:
        hint: appended to the list of files when one is missing.

    Raises:
        HarnessError: a file is missing.
    """
    missing = [name for name in FOLDER_FILES if not (folder / name).is_file()]
    if missing:
        raise HarnessError(
            f"The model folder lacks {', '.join(missing)}",
            where=str(folder),
            fix=f"It must hold {', '.join(FOLDER_FILES)}{hint}",
        )
    return sha256_text("".join(sha256_file(folder / name) for name in FOLDER_FILES))


class _ModelConfig(msgspec.Struct):
    hidden_size: int


def _hidden_size(path: Path) -> int:
    try:
        return decode_json(path.read_bytes(), _ModelConfig).hidden_size
    except UnreadableError as error:
        raise HarnessError(
            f"The model's configuration does not give its dimension: {error}",
            where=str(path),
            fix='It needs "hidden_size", a whole number',
        ) from error


def _local(model: str, settings: EmbedderSettings) -> LocalEmbedder:
    return _shared(model) if is_worker() else LocalEmbedder(model, settings.downloads)


@lru_cache(maxsize=1)
def _shared(model: str) -> LocalEmbedder:
    """Return a model that many tasks of a worker share; it is loaded once."""
    return LocalEmbedder(model)


FASTEMBED = EmbedderKind(_local, example="fastembed:BAAI/bge-small-en-v1.5")
