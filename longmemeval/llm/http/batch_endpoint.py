"""Batch endpoints of a provider, through LiteLLM's own client: a file of requests in, a file of replies out."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct, convert

from longmemeval.core.http import refuse_other_server
from longmemeval.core.secrets.redaction import Address
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, TransientModelError
from longmemeval.llm.http.client import options_sent
from longmemeval.llm.http.connections import Destination
from longmemeval.llm.http.errors import Breaker, call_with_retries, meaning_of
from longmemeval.llm.http.openai_protocol import RefusedCall, is_direct
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import split_spec

T = TypeVar("T")

_FILE_TIMEOUT_S = 600.0
"""Timeout in seconds for files of up to 200 MB."""
_PAGES, _PAGE = 10, 100
"""Number of pages of batches, newest first, to search for a batch whose creation was not answered."""
_WITHOUT_LIMIT = 1_000_000
_NAME = "longmemeval"
"""Key in a batch's metadata, and prefix of a file's name."""


class _Counts(Struct, frozen=True):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Fault(Struct, frozen=True):
    code: str | None = None
    message: str | None = None


class _Faults(Struct, frozen=True):
    data: tuple[_Fault, ...] | None = None


class BatchStatus(Struct, frozen=True):
    """The fields that we read from a provider's record of a batch."""

    id: str
    status: str
    """One of validating, in_progress, finalizing; in the end completed, expired, cancelled or failed."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, Any] | None = None
    request_counts: _Counts | None = None
    errors: _Faults | None = None

    @property
    def has_ended(self) -> bool:
        """True if it has reached a final status."""
        return self.status in ("completed", "expired", "cancelled", "failed")

    @property
    def counts(self) -> _Counts:
        """Numbers of requests, in total and done."""
        return self.request_counts or _Counts()

    @property
    def fault(self) -> _Fault:
        """The provider's reason for refusing the batch."""
        data = (self.errors.data if self.errors else None) or (_Fault(),)
        return data[0]


class _Named(Struct, frozen=True):
    id: str
    filename: str | None = None


class BatchEndpoint:
    """Endpoint for the batches of one model.

    Calls are repeated until nothing has succeeded for `options.give_up_after_s` seconds. Creating a batch is never
    repeated blindly: existing batches are checked first.

    Args:
        spec: the model, known to be well-formed.
        options: endpoint, timeout and patience.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.

    Raises:
        FatalModelError: LiteLLM knows no batches of this provider.
    """

    def __init__(self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None) -> None:
        self.spec, self._options = spec, options
        self.provider = batch_provider(spec)
        destination = Destination(spec, options, api_key, address)
        self.name = destination.name
        self._arguments = destination.arguments(options.timeout_s)
        if self.provider != split_spec(spec)[0]:
            _, _, key, base = load_litellm().get_llm_provider(model=spec)
            self._arguments["api_key"] = self._arguments["api_key"] or key
            self._arguments["api_base"] = self._arguments["api_base"] or base
        self._breaker = Breaker(self.name, options.give_up_after_s)

    async def upload(self, name: str, path: Path, *, fresh: bool) -> str:
        """Upload the file of requests at `path`, named after the batch `name`, and return the provider's id.

        Args:
            name: unique name of the batch.
            path: the file.
            fresh: True if certainly no upload has been tried before.
        """

        def send(litellm: ModuleType, untried: bool) -> str:
            if not (fresh and untried) and (found := self._find_file(litellm, name)):
                return found
            with path.open("rb") as file:
                created = litellm.create_file(
                    file=(_filename(name), file, "application/jsonl"),
                    purpose="batch",
                    **self._common_arguments(_FILE_TIMEOUT_S),
                )
            return convert(created, _Named, from_attributes=True).id

        return await self._call(send)

    async def create(self, name: str, file_id: str, *, fresh: bool) -> BatchStatus:
        """Create the batch `name` from an uploaded file, or return the existing one.

        Args:
            name: name of the batch; stored in its metadata.
            file_id: from `upload`.
            fresh: True if certainly no creation has been tried before.
        """

        def send(litellm: ModuleType, untried: bool) -> BatchStatus:
            if not (fresh and untried) and (found := self._find_batch(litellm, name)):
                return found
            created = litellm.create_batch(
                completion_window="24h",
                endpoint="/v1/chat/completions",
                input_file_id=file_id,
                metadata={_NAME: name},
                model=self.spec,
                **self._common_arguments(),
            )
            return convert(created, BatchStatus, from_attributes=True)

        return await self._call(send)

    async def find(self, name: str) -> BatchStatus | None:
        """Return the batch `name` if the provider has it and can list its batches."""
        return await self._call(lambda litellm, untried: self._find_batch(litellm, name))

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the state of a batch."""

        def send(litellm: ModuleType, untried: bool) -> BatchStatus:
            # LiteLLM would fetch the replies for a log of its own.
            unlogged = {"litellm_metadata": {"batch_ignore_default_logging": True}}
            batch = litellm.retrieve_batch(batch_id, model=self.spec, **unlogged, **self._common_arguments())
            return convert(batch, BatchStatus, from_attributes=True)

        return await self._call(send)

    async def content(self, file_id: str) -> bytes:
        """Return the bytes of a file."""

        def send(litellm: ModuleType, untried: bool) -> bytes:
            response = litellm.file_content(file_id, **self._common_arguments(_FILE_TIMEOUT_S))
            return bytes(response.content)

        return await self._call(send)

    def _find_file(self, litellm: ModuleType, name: str) -> str | None:
        try:
            page = litellm.file_list(purpose="batch", **self._common_arguments())
        except Exception as error:
            if _cannot_be_listed(error):
                return None
            raise
        files = (convert(entry, _Named, from_attributes=True) for entry in _data(page))
        return next((file.id for file in files if file.filename == _filename(name)), None)

    def _find_batch(self, litellm: ModuleType, name: str) -> BatchStatus | None:
        after = None
        for _ in range(_PAGES):
            try:
                page = litellm.list_batches(after=after, limit=_PAGE, **self._common_arguments())
            except Exception as error:
                if _cannot_be_listed(error):
                    return None
                raise
            listed = [convert(entry, BatchStatus, from_attributes=True) for entry in _data(page)]
            for batch in listed:
                if (batch.metadata or {}).get(_NAME) == name:
                    return batch
            if len(listed) < _PAGE:
                return None
            after = listed[-1].id
        return None

    def _common_arguments(self, seconds: float = 0.0) -> dict[str, Any]:
        """Return the arguments of every LiteLLM call."""
        names = ("api_base", "api_key", "api_version", "extra_headers", "max_retries")
        chosen = {name: self._arguments[name] for name in names if name in self._arguments}
        timeout = max(seconds, self._options.timeout_s)
        return chosen | {"timeout": timeout, "custom_llm_provider": self.provider}

    async def _call(self, send: Callable[[ModuleType, bool], T]) -> T:
        """Call `send` until it succeeds; its second argument tells whether this is the first attempt.

        Raises:
            FatalModelError: no call can succeed.
            EndpointDownError: no call has succeeded for too long. The provider keeps its files and batches.
        """
        litellm = load_litellm()
        _refuse_redirects(litellm)
        untried = True

        async def attempt() -> T:
            nonlocal untried
            first, untried = untried, False
            async with self._breaker.passage(attempt):
                try:
                    return await _in_thread(lambda: send(litellm, first))
                except HarnessError:
                    raise
                except Exception as error:
                    raise self._meaning(error) from None

        try:
            most = self._options.max_wait_s
            done, _ = await call_with_retries(
                attempt, max_attempts=_WITHOUT_LIMIT, max_wait_s=most, breaker=self._breaker
            )
        except TransientModelError as error:
            raise EndpointDownError(
                f"The batch endpoints of {self.name} have failed every call. Last error: {error.what}",
                fix="Rerun the same command when they answer again: the provider keeps what it has",
            ) from None
        return done

    def _meaning(self, error: Exception) -> HarnessError:
        if getattr(error, "status_code", None) in (404, 405):
            return FatalModelError(
                "The endpoint does not support batches, or does not know this batch",
                where=self.name,
                fix="Leave out --batch, or name an endpoint that has /files and /batches",
            )
        return meaning_of(error, f"{self.name}, batches")


@functools.cache
def _refuse_redirects(litellm: ModuleType) -> None:
    """Make LiteLLM's clients for files and batches refuse redirects to other servers."""
    from openai import OpenAI

    class CheckedOpenAI(OpenAI):
        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            self._client.event_hooks = {"response": [refuse_other_server]}

    vars(import_module(f"{litellm.__name__}.llms.openai.openai"))["OpenAI"] = CheckedOpenAI


@functools.lru_cache
def request_parameters(
    spec: str, temperature: float, max_tokens: int, options: ModelOptions = ModelOptions()
) -> Mapping[str, Any]:
    """Return the body of a request without its messages, as a direct call sends it.

    Args:
        temperature: omitted for a model that takes none, as in direct calls.
        max_tokens: limit of the whole reply, reasoning included.
        options: what the user asked for.
    """
    litellm = load_litellm()
    provider, name = split_spec(spec)
    asked = options_sent(spec, options)
    more = asked.pop("extra_body", {})
    parameters: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "n": 1} | asked
    # For other providers LiteLLM converts the lines to the provider's own form when it uploads them.
    if batch_provider(spec) not in ("vertex_ai", "bedrock"):
        parameters = litellm.get_optional_params(
            model=name, custom_llm_provider=provider, drop_params=True, **parameters
        )
        if is_direct(spec):
            parameters |= asked
    return {"model": name, **more} | {
        key: value for key, value in parameters.items() if key not in ("stream", "extra_body")
    }


def request_line(custom_id: str, body: bytes) -> bytes:
    """Return a request as a line of the file to upload."""
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": msgspec.Raw(body)}
    return msgspec.json.encode(line) + b"\n"


class _Response(Struct, frozen=True):
    status_code: int = 0
    body: dict[str, Any] | None = None


class BatchLine(Struct, frozen=True):
    """A line of a file of replies, or of errors."""

    custom_id: str
    response: _Response | None = None
    error: _Fault | None = None

    @property
    def body(self) -> dict[str, Any] | None:
        """The completion, if there is one."""
        return self.response.body if self.response and self.response.status_code == 200 else None

    @property
    def status(self) -> int:
        """The HTTP status of the request; 0 if it was never tried."""
        return self.response.status_code if self.response else 0

    @property
    def error_body(self) -> dict[str, Any]:
        """The error, in the form of OpenAI's."""
        error = (self.response.body or {}).get("error") if self.response else None
        if isinstance(error, dict):
            return error
        fault = self.error or _Fault()
        return {"code": fault.code, "message": fault.message or fault.code or "no reason given"}


def refusal(status: int, error_body: dict[str, Any], where: str) -> HarnessError:
    """Return the error for a failed request of a batch, as a direct call would raise it.

    A request that was never tried may be repeated.
    """
    if not status:
        return TransientModelError(f"The batch has no reply to this request: {error_body.get('message')}", where=where)
    return meaning_of(refused_call(status, error_body), where)


def refused_call(status: int, error_body: dict[str, Any]) -> RefusedCall:
    """Return a failed request of a batch as a direct call fails."""
    return RefusedCall(status, {}, msgspec.json.encode({"error": error_body}))


def batch_provider(spec: str) -> str:
    """Return the name of the provider in LiteLLM's batch calls."""
    litellm = load_litellm()
    offered = get_args(inspect.signature(litellm.create_batch).parameters["custom_llm_provider"].annotation)
    provider, _ = split_spec(spec)
    if provider in offered:
        return provider
    if provider == "custom_openai" or provider in litellm.openai_compatible_providers:
        return "openai"
    raise FatalModelError(
        f"LiteLLM does not support batches for {provider}", fix=f"Leave out --batch; it works with {', '.join(offered)}"
    )


def _filename(name: str) -> str:
    return f"{_NAME}-{name}.jsonl"


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work()` in a thread that is abandoned once this is cancelled.

    Each of LiteLLM's asynchronous batch calls would create a client and leave its connections to some later loop.
    """
    done = Future[T]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    done.set_running_or_notify_cancel()
    Thread(target=run, name="longmemeval-batch", daemon=True).start()
    return await asyncio.wrap_future(done)


def _data(page: object) -> Iterable[object]:
    """Return the entries on a page of a list; the form of the page differs between providers."""
    entries: Iterable[object] | None = page.get("data") if isinstance(page, dict) else getattr(page, "data", None)
    return entries or ()


def _cannot_be_listed(error: Exception) -> bool:
    """Return whether a provider cannot list its files or batches, so that none is found."""
    return getattr(error, "status_code", None) in (400, 404, 405, 501)
