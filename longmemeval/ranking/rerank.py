"""Cross-encoders, which read the question and a text together, and reordering a ranking by them."""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from longmemeval.core.event_loop import add_time, complete, paused
from longmemeval.core.files import sha256_text
from longmemeval.core.installation import install_command
from longmemeval.core.secrets.redaction import fault_of, public_url, split_address
from longmemeval.embedding.local import folder_digest, named_model
from longmemeval.errors import HarnessError, ModelError, RecallError, nearest, needed
from longmemeval.llm.http.endpoints import served_at
from longmemeval.llm.model_calls import CallFile, ModelCall
from longmemeval.llm.registry import ModelAccess, load_rerank_model

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

KIND, _SERVED = "fastembed", "litellm"
_EXAMPLES = {KIND: "fastembed:Xenova/ms-marco-MiniLM-L-6-v2", _SERVED: "litellm:cohere/rerank-v3.5"}
_KEY_FIX = "Write it like http://localhost:8000/v1; a key goes into the provider's variable (HOSTED_VLLM_API_KEY)"
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


def load_reranker(spec: str, access: ModelAccess | None = None, here: bool = False) -> Reranker:
    """Return the reranker that `spec` names, ready to score texts.

    Args:
        spec: `fastembed:NAME` (a cross-encoder that fastembed knows and downloads), `fastembed:DIR` (a folder that
            holds `FOLDER_FILES`), `litellm:PROVIDER/MODEL` or `litellm:PROVIDER/MODEL@ADDRESS`.
        access: connection options, account and record of a reranker behind a server; None: the usual ones.
        here: True if nothing may be downloaded, and no server called.

    Raises:
        HarnessError: the spec is unknown, fastembed is not installed, the folder lacks files, or the model cannot be
            loaded or downloaded; the address is invalid, or `here` forbids calls.
        FatalModelError: no call to the server could succeed: unknown provider, no key, or a limit without a price.
    """
    kind, _, argument = spec.partition(":")
    if kind not in _EXAMPLES:
        raise HarnessError(f"Unknown reranker '{kind}'", where=spec, fix=nearest(kind, _EXAMPLES))
    if not argument:
        raise HarnessError(f"The reranker '{kind}' needs a model", where=spec, fix=f"Write it like {_EXAMPLES[kind]}")
    if kind == _SERVED:
        if here:
            what = f"'{argument.partition('@')[0]}' reranks on a server, and none is called here"
            raise HarnessError(what, fix="See what it recalled in its runs")
        return RemoteReranker(argument, access or ModelAccess())
    reranker = LocalReranker(argument, downloads=not here)
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


class RemoteReranker:
    """A reranker behind a server, called by LiteLLM's rerank call. Blank texts are not sent: they come last.

    Args:
        argument: the part of the spec after `litellm:`.
        access: connection options, account and record of calls.

    Raises:
        HarnessError, FatalModelError: as for `load_reranker`.
    """

    def __init__(self, argument: str, access: ModelAccess) -> None:
        self.spec = f"{_SERVED}:{argument}"
        model, _, address = argument.partition("@http")
        base = f"http{address}" if address else None
        options = structs.replace(access.options, api_base=base)
        if base and (fault := fault_of(base)):
            raise HarnessError(f"The address of the reranker {fault.what}", where=model, fix=_KEY_FIX)
        if base and split_address(base).headers:
            what = "The address of the reranker holds a password, which run.json would keep"
            raise HarnessError(what, where=model, fix=_KEY_FIX)
        self.fingerprint = f"{_SERVED}:{model}@{public_url(base) if base else served_at(model, options)}"
        self._model = load_rerank_model(model, options, account=access.account)
        self._calls = CallFile(access.calls_file)
        self._fetched: dict[tuple[str, tuple[str, ...]], NDArray[np.float64]] = {}

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return scores that were fetched, once; those that were not are awaited here. See `Reranker.scores`.

        Raises:
            RecallError: this call cannot be answered.
            FatalModelError, EndpointDownError, SpendingLimitError: no call can.
        """
        key = (query, tuple(texts))
        if key not in self._fetched:
            complete(self.fetch(query, texts))
        return self._fetched.pop(key)

    async def fetch(self, query: str, texts: Sequence[str], haystack_id: str = "") -> None:
        """Call the server, so that `scores` need not wait; errors are those of `scores`."""
        scores = np.full(len(texts), -math.inf)
        if sent := [place for place, text in enumerate(texts) if text.strip()]:
            scores[sent] = await self._called(query, [texts[place] for place in sent], haystack_id)
        self._fetched[query, tuple(texts)] = scores

    async def _called(self, query: str, texts: list[str], haystack_id: str) -> Sequence[float]:
        call = ModelCall(
            "search",
            "",
            "rerank",
            self._model.spec,
            texts=len(texts),
            haystack_id=haystack_id,
            request_sha256=sha256_text("\0".join((query, *texts))),
        )
        with self._calls.awaited(), paused():
            try:
                called = await self._model.rerank(query, texts)
            except HarnessError as error:
                self._calls.append(structs.replace(call, error=str(error)))
                if isinstance(error, ModelError):
                    raise RecallError(error.what, where=error.where, fix=error.fix) from error
                raise
            add_time(called.latency_ms)
            tokens, dollars = called.usage.prompt_tokens, called.usage.dollars
            self._calls.append(
                structs.replace(call, prompt_tokens=tokens, cost_usd=dollars, milliseconds=called.latency_ms)
            )
        return called.reply.scores


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
