"""Embedding models behind an OpenAI-compatible endpoint."""

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from longmemeval.core.arrays import Vectors
from longmemeval.core.http import note_wait, proxy_for, refuse_other_server, requested_wait, too_long_a_wait
from longmemeval.core.secrets.parameters import resolved
from longmemeval.core.secrets.redaction import public_url, redact, register_address, split_address
from longmemeval.embedding.protocol import EmbedderKind, EmbedderSettings
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs import Account, price
from longmemeval.llm.http.endpoints import endpoint_of
from longmemeval.llm.http.errors import refused_by_proxy
from longmemeval.llm.options import check_endpoint, named, split_options, with_options
from longmemeval.llm.providers import OPENAI_PROVIDERS, account_headers, setting
from longmemeval.llm.rates import Permit, TokenEstimate, gate_for
from longmemeval.records import Usage

if TYPE_CHECKING:
    import httpx

MAX_BATCH_TEXTS = 128
MAX_BATCH_CHARACTERS = 200_000
_CHARACTERS_OF_TOKEN = 4
_RETRIES = 6
_SECONDS = 60.0
_CONNECT_SECONDS = 20.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_PASSING_STATUSES = {408, 409, 429}
_OWN_ADDRESS = OPENAI_PROVIDERS["openai"].address or ""
_PLACEHOLDER_KEY = "none"  # the client requires a key; a private server ignores it
_FATAL_STATUSES = {
    401: "refuses the key",
    402: "needs credit on the account",
    403: "refuses access",
    404: "does not know the model or the path",
}
_BAD_INPUT_STATUSES = {400, 413, 422}
_OURS = {"input", "encoding_format"}


class RemoteEmbedder:
    """Embeds by `POST {endpoint}/embeddings` in batches, with retries.

    No text is truncated: one that is too long for the model is an error. A blank text, which endpoints refuse, gets a
    zero row without a call. Whether a row depends on the rest of its batch is up to the server; with `CachedEmbedder`
    a text keeps its first row.

    Args:
        model: the model's name, as the server knows it, and fields of each request after it (`,dimensions=256`).
        settings: connection and account; without an address, that of the environment, else OpenAI's own endpoint.

    Attributes:
        usage: cost of this object's calls so far; failed calls are not counted.

    Raises:
        FatalModelError: `OPENAI_API_KEY` is not set and no endpoint is named, or the price is unknown although there is
            a limit.
        HarnessError: the endpoint is not a web address, or the proxy before it cannot be used.
    """

    def __init__(self, model: str, settings: EmbedderSettings) -> None:
        self._model, self._fields = _with_fields(model)
        self.spec = f"openai:{with_options(model)}"
        base, place = endpoint_of("openai", settings)
        register_address(base)
        check_endpoint(base, place)
        address = split_address(_trimmed(base)) if base else None
        self._key = setting(*OPENAI_PROVIDERS["openai"].keys)
        if not (self._key or base or settings.keyless):
            raise FatalModelError(
                "The embedding endpoint needs an API key, but OPENAI_API_KEY is not set",
                where=self.spec,
                fix="Set OPENAI_API_KEY, or name your own server with --api-base",
            )
        self._headers = {"Authorization": f"Bearer {self._key or _PLACEHOLDER_KEY}", "Content-Type": "application/json"}
        self._headers |= account_headers() | (address.headers if address else {})
        self._base = _with_slash(address.url if address else _OWN_ADDRESS)
        self._settings = settings
        self._account = settings.account if self._is_priced(settings.account, own_server=base is not None) else None
        self._endpoint = public_url(self._base)
        self._proxy = proxy_for(self._base)
        self._where = f"{self.spec} at {self._endpoint}{self._proxy}"
        self._gate = gate_for(f"openai:{self._model}", self._endpoint, self._key, settings.rates)
        self.fingerprint = f"{self.spec}@{self._endpoint}"
        self.usage = Usage()
        self._dimension: int | None = None

    @cached_property
    def _client(self) -> "httpx.Client":
        import httpx

        return httpx.Client(
            follow_redirects=True,
            event_hooks={"response": [refuse_other_server]},
            transport=httpx.HTTPTransport(proxy=self._proxy.url or None),
        )

    @property
    def dimension(self) -> int:
        """Length of a vector, known from the first reply; without one, a probe text is embedded."""
        return self._dimension or self._call(["probe"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed `texts`; see `Embedder.embed`.

        Raises:
            ModelError: the server still fails after all retries, refuses a text, or sends an invalid reply.
            EndpointDownError: it has failed for too long.
            SpendingLimitError: the account has no room for a batch.
            FatalModelError: the key, the account, the address or the model's name is refused.
        """
        parts = [(batch, self._call([texts[i] for i in batch])) for batch in _batches(texts)]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for batch, rows in parts:
            vectors[batch] = rows
        return vectors

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of the texts of each call; blank texts need no call."""
        return _batches(texts)

    def _call(self, texts: list[str]) -> Vectors:
        """Return unit rows in the order of `texts`, with as many requests as needed."""
        import httpx

        started, attempts = time.monotonic(), 0
        while True:
            turn = self._gate.turn_blocking(TokenEstimate(sum(map(len, texts)) // _CHARACTERS_OF_TOKEN))
            started += turn.held_back_s
            left = started + self._settings.give_up_after_s - time.monotonic()
            attempts += 1
            try:
                return self._attempt(texts, turn, min(_SECONDS, max(left, self._settings.give_up_after_s / 10)))
            except (httpx.HTTPError, FatalModelError) as error:
                # The cause is left out of the chain: the server's message may contain the key.
                explained, response = self._explain(error, texts), _response(error)
                requested = requested_wait(response.headers, explained.what) if response is not None else None
                if _status(error) == 429:
                    turn.refused(requested, self._settings.give_up_after_s)
            gone = time.monotonic() - started
            if not isinstance(explained, TransientModelError):
                raise explained
            if requested and requested > self._settings.give_up_after_s:
                said = explained.what.partition(": ")[2]
                raise too_long_a_wait(self._where, requested, self._settings.give_up_after_s, said)
            if gone >= self._settings.give_up_after_s:
                raise EndpointDownError(
                    f"{self._where} has failed every call for {gone:,.0f} s ({attempts} attempts). "
                    f"Last error: {explained.what}",
                    fix="Rerun the command when it answers again; finished embeddings are kept; --give-up-after "
                    "SECONDS waits longer",
                )
            if attempts > _RETRIES:
                raise explained
            own = min(_FIRST_PAUSE_S * 2 ** (attempts - 1), _LONGEST_PAUSE_S, self._settings.give_up_after_s - gone)
            note_wait(self.spec, requested or 0.0)
            time.sleep(requested or own)

    def _attempt(self, texts: list[str], turn: Permit, seconds: float) -> Vectors:
        """Send one request."""
        import httpx

        most = self._most(texts)
        reserved = self._account.reserve_blocking(most, self._model) if self._account else ""
        cost, failed = most, True
        try:
            response = self._client.post(
                f"{self._base}embeddings",
                content=msgspec.json.encode(
                    {"input": texts, "model": self._model, "encoding_format": "float"} | resolved(self._fields)
                ),
                headers=self._headers,
                timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            )
            response.raise_for_status()
            turn.learn(response.headers)
            vectors, tokens = self._read(response.content, len(texts))
            turn.answered(tokens, 0)
            usage = _cost(self._model, tokens)
            cost, failed = usage.cost_usd if tokens else most, False
        except (httpx.HTTPError, FatalModelError) as error:
            cost = most if _may_be_billed(error) else 0.0
            raise
        finally:
            if self._account:
                self._account.record_cost(reserved, cost, failed=failed)
        if self._dimension not in (None, vectors.shape[1]):
            raise self._protocol_error(f"vectors of {vectors.shape[1]} numbers after vectors of {self._dimension}")
        self._dimension = vectors.shape[1]
        self.usage += usage
        return vectors

    def _most(self, texts: Sequence[str]) -> float:
        """Return the maximum cost of a request in US dollars.

        A text in a natural language has at most a third as many tokens as bytes.
        """
        if self._account is None:
            return 0.0
        return price(self._model, sum(len(text.encode()) for text in texts) // 3 + len(texts)) or 0.0

    def _is_priced(self, account: Account | None, *, own_server: bool) -> bool:
        """Return whether there are costs to record in `account`. A private server is free if no price is known.

        Raises:
            FatalModelError: there is a limit, but the price is unknown.
        """
        dollars = price(self._model, 1_000_000) if account else None
        if account and account.limit and dollars is None and not own_server:
            raise FatalModelError(
                f"The price of {self.spec} is not known, so --max-cost cannot be enforced",
                fix="Leave out --max-cost, or name a model with a known price",
            )
        return bool(dollars)

    def _read(self, body: bytes, count: int) -> tuple[Vectors, int]:
        """Return the rows of a reply in the order of their `index`, scaled to length 1, and the prompt tokens."""
        try:
            reply = msgspec.json.decode(body, type=_Reply)
        except msgspec.DecodeError as error:
            raise self._protocol_error(str(error)) from error
        items = sorted(reply.data, key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)):
            raise self._protocol_error(f"{len(items)} vectors, not numbered from 0 to {count - 1}")
        lengths = {len(item.embedding) for item in items}
        if len(lengths) != 1 or 0 in lengths:
            raise self._protocol_error(f"vectors of {sorted(lengths)} numbers in one reply")
        vectors = np.array([item.embedding for item in items])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.maximum(norms, 1e-12)).astype(np.float32), max(
            reply.usage.prompt_tokens, 0
        ) if reply.usage else 0

    def _protocol_error(self, what: str) -> ModelError:
        return ModelError(
            f"The embedding endpoint does not follow the OpenAI protocol: {what}",
            where=self._where,
            fix="Check that the address is that of an embedding server, usually ending in /v1",
        )

    def _explain(self, error: Exception, texts: list[str]) -> HarnessError:
        where = self._where
        if isinstance(error, FatalModelError):
            return FatalModelError(error.what, where=where, fix=error.fix)
        if by_proxy := refused_by_proxy(error, where):
            return by_proxy
        response, status = _response(error), _status(error)
        said = f"error {status}: {response.text}" if response is not None else str(error) or type(error).__name__
        message = " ".join(redact(said).split())[:300]
        if status in _FATAL_STATUSES:
            return FatalModelError(
                f"The embedding endpoint {_FATAL_STATUSES[status]}: {message}",
                where=where,
                fix="Check OPENAI_API_KEY and its account, --api-base, and the model's name",
            )
        if response is not None and _code(response) == "insufficient_quota":
            return FatalModelError(f"The account is empty: {message}", where=where, fix="Top it up or use another key")
        if status in _BAD_INPUT_STATUSES:
            longest = max(texts, key=len)
            return ModelError(
                f"The embedding endpoint refused a call with {len(texts)} texts, the longest of which has "
                f"{len(longest)} characters and begins {longest[:60]!r}: {message}",
                where=where,
                fix="If it is too long, choose a model with a wider window; no text is cut silently",
            )
        passing = status is None or status in _PASSING_STATUSES or status >= 500
        return (TransientModelError if passing else ModelError)(
            f"The call to the embedding endpoint failed after all retries: {message}",
            where=where,
            fix="Rerun the command later; finished embeddings are kept",
        )


def _with_fields(model: str) -> tuple[str, dict[str, Any]]:
    """Return a model's name, and the fields of its requests that follow it.

    Raises:
        HarnessError: the harness itself sets one of them, or it is for chat models.
    """
    name, options = named(model)
    if wrong := [*options.calls.recorded.keys() - {"model_options"}, *_OURS & options.more.keys()]:
        raise HarnessError(f"An embedder does not take '{wrong[0]}'", where=name, fix="Leave it out")
    return name, options.more


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Tokens(msgspec.Struct):
    prompt_tokens: int = 0


class _Reply(msgspec.Struct):
    data: list[_Item]
    usage: _Tokens | None = None


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the positions of non-blank texts, in batches within both limits; a huge text goes alone."""
    batch: list[int] = []
    characters = 0
    for i, text in enumerate(texts):
        if not text.strip():
            continue
        if batch and (len(batch) == MAX_BATCH_TEXTS or characters + len(text) > MAX_BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(i)
        characters += len(text)
    if batch:
        yield batch


def _trimmed(base: str) -> str:
    """Return an address without the path of one kind of call."""
    return base.rstrip("/").removesuffix("/embeddings").removesuffix("/chat/completions")


def _with_slash(url: str) -> str:
    """Return an address in its normal form, with a slash at the end."""
    from httpx import URL

    address = URL(url)
    path = address.raw_path
    return str(address if path.endswith(b"/") else address.copy_with(raw_path=path + b"/"))


def _response(error: Exception) -> "httpx.Response | None":
    """Return the reply with which the server refused a call."""
    import httpx

    return error.response if isinstance(error, httpx.HTTPStatusError) else None


def _status(error: Exception) -> int | None:
    response = _response(error)
    return response.status_code if response is not None else None


class _Fault(msgspec.Struct):
    code: str | int | None = None


class _Refusal(msgspec.Struct):
    error: _Fault | None = None


def _code(response: "httpx.Response") -> str | int | None:
    """Return the code of a refusal in OpenAI's form."""
    try:
        refusal = msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        return None
    return refusal.error.code if refusal.error else None


def _may_be_billed(error: Exception) -> bool:
    """Return whether a failed attempt may cost something: not if there was no connection, or the server refused it."""
    import httpx

    status = _status(error)
    return status >= 500 if status else not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _cost(model: str, tokens: int) -> Usage:
    """Return the cost of one call; `tokens` is 0 when the server does not count them."""
    return Usage.of_call(tokens, 0, price(model, tokens) or None)


OPENAI = EmbedderKind(
    RemoteEmbedder, "openai:text-embedding-3-small", is_remote=True, priced_as=lambda model: split_options(model)[0]
)
