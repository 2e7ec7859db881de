"""Embedding models behind an OpenAI-compatible endpoint."""

import base64
import logging
import re
import time
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from longmemeval.core.arrays import Vectors
from longmemeval.core.http import note_wait, proxy_for, refuse_other_server, requested_wait, too_long_a_wait
from longmemeval.core.secrets.parameters import resolved
from longmemeval.core.secrets.redaction import public_url, redact, register_address, split_address
from longmemeval.embedding.protocol import EmbedderKind, EmbedderSettings, TooManyTextsError
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs import Account, Counted, price
from longmemeval.llm.http.endpoints import endpoint_of
from longmemeval.llm.http.errors import refused_by_proxy
from longmemeval.llm.options import check_endpoint, named, split_options, with_options
from longmemeval.llm.providers import OPENAI_PROVIDERS, account_headers, setting
from longmemeval.llm.rates import Permit, TokenEstimate, gate_for
from longmemeval.llm.tokens import token_counter
from longmemeval.records import Usage

if TYPE_CHECKING:
    import httpx

MAX_BATCH_CHARACTERS = 200_000
_CHARACTERS_OF_TOKEN = 4
_RETRIES = 6
_FORMS = 2  # attempts in another form: without a field, as a text without a list
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
_TOO_LARGE = re.compile(r"too (?:large|long)|batch size|(?:context|sequence|input) length|max\w* .{0,40}token", re.I)
"""What servers say of a text that exceeds the window, and of a call that is too large: llama.cpp with status 500,
OpenAI with 429 if it exceeds the tokens of a minute by itself."""
_LOG = logging.getLogger(__name__)


class _Endpoint:
    """What the server of one model takes, by what it has refused in this process."""

    def __init__(self, fingerprint: str, most_texts: int) -> None:
        self.most_texts = self.told = self.asked = most_texts
        self.form: dict[str, Any] = {"encoding_format": "float"}
        self.takes_lists = True


_endpoint_of = cache(_Endpoint)


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
        self._known = _endpoint_of(self.fingerprint, settings.embed_batch)

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
            TooManyTextsError: the server refuses a call with several texts; later calls have at most half as many.
            ModelError: the server still fails after all retries, refuses a text, or sends an invalid reply.
            EndpointDownError: it has failed for too long.
            SpendingLimitError: the account has no room for a batch.
            FatalModelError: the key, the account, the address or the model's name is refused.
        """
        parts = [(batch, self._call([texts[i] for i in batch])) for batch in self.batches(texts)]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for batch, rows in parts:
            vectors[batch] = rows
        return vectors

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of the texts of each call, within both limits; blank texts need none."""
        batch: list[int] = []
        characters = 0
        for i, text in enumerate(texts):
            if not text.strip():
                continue
            if batch and (len(batch) >= self._known.most_texts or characters + len(text) > MAX_BATCH_CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append(i)
            characters += len(text)
        if batch:
            yield batch

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
                if attempts <= _FORMS and self._leaves_out(error, texts):
                    continue
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

        most, given = self._most(texts), texts if self._known.takes_lists or len(texts) > 1 else texts[0]
        reserved = self._account.reserve_blocking(most, self._model) if self._account else ""
        cost, failed = most, True
        try:
            response = self._client.post(
                f"{self._base}embeddings",
                content=msgspec.json.encode(
                    {"input": given, "model": self._model} | self._known.form | resolved(self._fields)
                ),
                headers=self._headers,
                timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            )
            response.raise_for_status()
            turn.learn(response.headers)
            vectors, counted = self._read(response.content, len(texts))
            usage = self._cost(texts, counted)
            turn.answered(usage.prompt_tokens, 0)
            cost, failed = most if usage.unpriced_calls else usage.cost_usd, False
            self.usage += usage
        except (httpx.HTTPError, FatalModelError) as error:
            cost = most if _may_be_billed(error) else 0.0
            raise
        finally:
            if self._account:
                self._account.record_cost(reserved, cost, failed=failed)
        if self._dimension not in (None, vectors.shape[1]):
            raise self._protocol_error(f"vectors of {vectors.shape[1]} numbers after vectors of {self._dimension}")
        self._dimension = vectors.shape[1]
        if self._known.told > self._known.most_texts:
            self._known.told = self._known.most_texts
            _LOG.warning("%s: the server takes no more than %d texts a call", self.spec, self._known.told)
        return vectors

    def _cost(self, texts: Sequence[str], counted: Counted) -> Usage:
        """Return the cost of one call; its tokens are counted here where the server gives less than one a text."""
        if (tokens := counted.prompt or counted.total) >= len(texts):
            return Usage.of_call(tokens, 0, price(self._model, tokens))
        return Counted().usage(sum(map(token_counter(self._model).count, texts)), 0, partial(price, self._model))

    def _leaves_out(self, error: Exception, texts: Sequence[str]) -> bool:
        """Return whether the server refuses the form of a request, which is changed from now on."""
        response = _response(error)
        said = response.text if response is not None and response.status_code in _BAD_INPUT_STATUSES else ""
        if refuses_field := bool(re.search(r"encoding.?format|base64", said, re.I)):
            self._known.form = {}
        if refuses_list := len(texts) == 1 and bool(re.search(r"\bstring\b", said, re.I)):
            self._known.takes_lists = False
        return refuses_field or refuses_list

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

    def _read(self, body: bytes, count: int) -> tuple[Vectors, Counted]:
        """Return the rows of a reply in the order of their `index`, scaled to length 1, and its count of tokens.

        Without any `index` they are in the order of the texts. Vectors in base64 are read though nobody asked for them.
        """
        try:
            reply = msgspec.json.decode(body, type=_Reply, strict=False)
            rows = {
                place if item.index is None else item.index: _numbers(item.embedding)
                for place, item in enumerate(reply.data)
            }
        except (msgspec.DecodeError, ValueError) as error:
            infinite = re.search(rb"\bNaN\b|\bInfinity\b", body)
            raise self._protocol_error("numbers that are not finite" if infinite else str(error)) from error
        if len(reply.data) != count or rows.keys() != set(range(count)):
            raise self._protocol_error(f"{len(reply.data)} vectors for {count} texts, or other numbers than 0, 1, …")
        lengths = {len(row) for row in rows.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise self._protocol_error(f"vectors of {sorted(lengths)} numbers in one reply")
        vectors = np.array([rows[place] for place in range(count)], dtype=np.float64)
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise self._protocol_error("numbers that are not finite")
        return (vectors / np.maximum(norms, 1e-12)).astype(np.float32), Counted.of(reply.usage)

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
        is_large = bool(_TOO_LARGE.search(message)) and (status != 429 or "too large" in message)
        if status in _BAD_INPUT_STATUSES or (is_large and status in (429, 500)):
            if len(texts) > 1:
                self._known.most_texts = min(self._known.most_texts, len(texts) // 2)
                return TooManyTextsError(
                    f"The embedding endpoint refused a call with {len(texts)} texts: {message}", where=where
                )
            self._known.most_texts = self._known.told = self._known.asked  # It may be the fault of this text alone.
            too_long = "Choose a model with a wider window: no text is cut silently"
            return ModelError(
                f"The embedding endpoint refused a text of {len(texts[0]):,} characters, which begins "
                f"{texts[0][:60]!r}: {message}",
                where=where,
                fix=too_long if is_large else "Check the model's name, its options and --api-base",
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
    embedding: list[float] | str
    index: int | None = None


class _Reply(msgspec.Struct):
    data: list[_Item]
    usage: Any = None


def _numbers(embedding: list[float] | str) -> Sequence[float]:
    """Return the numbers of a vector, which may be float32 in base64."""
    if isinstance(embedding, list):
        return embedding
    return [*np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").tolist()]


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


OPENAI = EmbedderKind(
    RemoteEmbedder, "openai:text-embedding-3-small", is_remote=True, priced_as=lambda model: split_options(model)[0]
)
