"""The batch endpoints of a provider, through LiteLLM's own client: a file of requests in, a file of replies out."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, TypeVar, get_args

import httpx
import msgspec
from msgspec import Struct, convert

from longmemeval.core.secrets.addresses import Address
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, TransientModelError
from longmemeval.llm.costs.prices import load_litellm
from longmemeval.llm.http.breaker import Breaker
from longmemeval.llm.http.destination import Destination
from longmemeval.llm.http.errors_map import meaning_of
from longmemeval.llm.http.retry import call_with_retries
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import split_spec

T = TypeVar("T")

_FILE_TIMEOUT_S = 600.0
"""For files of up to 200 MB."""
_PAGES, _PAGE = 10, 100
"""Of batches looked through for one whose creation was not answered, newest first."""
_WITHOUT_LIMIT = 1_000_000
_NAME = "longmemeval"
"""Of the key of a batch's metadata, and the beginning of a file's name."""


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
    """The part of a provider's record of a batch that is read."""

    id: str
    status: str
    """validating, in_progress, finalizing, or how it ended: completed, expired, cancelled, failed."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, Any] | None = None
    request_counts: _Counts | None = None
    errors: _Faults | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("completed", "expired", "cancelled", "failed")

    @property
    def counts(self) -> _Counts:
        """How many of its requests are done."""
        return self.request_counts or _Counts()

    @property
    def fault(self) -> _Fault:
        """Why the provider refused it."""
        data = (self.errors.data if self.errors else None) or (_Fault(),)
        return data[0]


class _Named(Struct, frozen=True):
    id: str
    filename: str | None = None


class BatchEndpoint:
    """Where the batches of one model go.

    Calls are tried again until nothing has succeeded for `options.give_up_after_s` seconds. Creating a batch is never
    repeated blindly: what the provider has is looked up first.

    Args:
        spec: the model, known to be well-formed.
        options: endpoint, time-out and patience.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: where calls go; None leaves that to LiteLLM and the environment.

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
        """The provider's id of the file of requests at `path`, called after the batch `name`.

        Args:
            name: of the batch, unlike any other.
            path: the file.
            fresh: whether it is known that no upload has been tried before.
        """

        def send(litellm: ModuleType, untried: bool) -> str:
            if not (fresh and untried) and (found := self._found_file(litellm, name)):
                return found
            with path.open("rb") as file:
                made = litellm.create_file(
                    file=(_filename(name), file, "application/jsonl"), purpose="batch", **self._told(_FILE_TIMEOUT_S)
                )
            return convert(made, _Named, from_attributes=True).id

        return await self._call(send)

    async def create(self, name: str, file_id: str, *, fresh: bool) -> BatchStatus:
        """Have an uploaded file worked off as the batch `name`; the one that is there already, if it is.

        Args:
            name: of the batch; kept in its metadata.
            file_id: from `upload`.
            fresh: whether it is known that no creation has been tried before.
        """

        def send(litellm: ModuleType, untried: bool) -> BatchStatus:
            if not (fresh and untried) and (found := self._found_batch(litellm, name)):
                return found
            made = litellm.create_batch(
                completion_window="24h",
                endpoint="/v1/chat/completions",
                input_file_id=file_id,
                metadata={_NAME: name},
                model=self.spec,
                **self._told(),
            )
            return convert(made, BatchStatus, from_attributes=True)

        return await self._call(send)

    async def find(self, name: str) -> BatchStatus | None:
        """The batch `name` where the provider has it and can list what it has."""
        return await self._call(lambda litellm, untried: self._found_batch(litellm, name))

    async def status(self, batch_id: str) -> BatchStatus:
        """How far a batch has come."""

        def send(litellm: ModuleType, untried: bool) -> BatchStatus:
            # LiteLLM would fetch the replies for a log of its own.
            unlogged = {"litellm_metadata": {"batch_ignore_default_logging": True}}
            found = litellm.retrieve_batch(batch_id, model=self.spec, **unlogged, **self._told())
            return convert(found, BatchStatus, from_attributes=True)

        return await self._call(send)

    async def content(self, file_id: str) -> bytes:
        """The bytes of a file."""

        def send(litellm: ModuleType, untried: bool) -> bytes:
            found = litellm.file_content(file_id, **self._told(_FILE_TIMEOUT_S))
            return bytes(found.content)

        return await self._call(send)

    def _found_file(self, litellm: ModuleType, name: str) -> str | None:
        try:
            page = litellm.file_list(purpose="batch", **self._told())
        except Exception as error:
            if _cannot_be_listed(error):
                return None
            raise
        files = (convert(one, _Named, from_attributes=True) for one in _data(page))
        return next((file.id for file in files if file.filename == _filename(name)), None)

    def _found_batch(self, litellm: ModuleType, name: str) -> BatchStatus | None:
        after = None
        for _ in range(_PAGES):
            try:
                page = litellm.list_batches(after=after, limit=_PAGE, **self._told())
            except Exception as error:
                if _cannot_be_listed(error):
                    return None
                raise
            listed = [convert(one, BatchStatus, from_attributes=True) for one in _data(page)]
            for batch in listed:
                if (batch.metadata or {}).get(_NAME) == name:
                    return batch
            if len(listed) < _PAGE:
                return None
            after = listed[-1].id
        return None

    def _told(self, seconds: float = 0.0) -> dict[str, Any]:
        """What LiteLLM is told with each call."""
        chosen = {name: self._arguments[name] for name in ("api_base", "api_key", "extra_headers", "max_retries")}
        timeout = max(seconds, self._options.timeout_s)
        return chosen | {"timeout": timeout, "custom_llm_provider": self.provider}

    async def _call(self, send: Callable[[ModuleType, bool], T]) -> T:
        """Send until it succeeds; `send` is told whether it is the first time.

        Raises:
            FatalModelError: no call can succeed.
            EndpointDownError: no call has succeeded for too long. What the provider has, it keeps.
        """
        litellm = load_litellm()
        untried = True

        async def attempt() -> T:
            nonlocal untried
            first, untried = untried, False
            async with self._breaker.passage(attempt):
                try:
                    return await _beside(lambda: send(litellm, first))
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
                f"The batch endpoints have answered nothing but failures. The last: {error.what}",
                where=self.name,
                fix="Rerun the same command when they answer again: what the provider has, it keeps",
            ) from None
        return done

    def _meaning(self, error: Exception) -> HarnessError:
        if getattr(error, "status_code", None) in (404, 405):
            return FatalModelError(
                "This endpoint offers no batches, or does not know the one it is asked for",
                where=self.name,
                fix="Leave out --batch, or name an endpoint that has /files and /batches",
            )
        return meaning_of(error, f"{self.name}, batches")


@functools.lru_cache
def request_parameters(spec: str, temperature: float, max_tokens: int) -> Mapping[str, Any]:
    """What the body of a request holds besides its messages: what a direct call sends.

    Args:
        spec: the model.
        temperature: of the call; left out for a model that takes none, as in direct calls.
        max_tokens: of the reply.
    """
    litellm = load_litellm()
    provider, name = split_spec(spec)
    parameters: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "n": 1}
    # For the others LiteLLM brings the lines into the provider's own shape when it uploads them.
    if batch_provider(spec) not in ("vertex_ai", "bedrock"):
        parameters = litellm.get_optional_params(
            model=name, custom_llm_provider=provider, drop_params=True, **parameters
        )
    return {"model": name} | {key: value for key, value in parameters.items() if key not in ("stream", "extra_body")}


def request_line(custom_id: str, body: bytes) -> bytes:
    """A request as a line of the file that is uploaded."""
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
        """The completion, where there is one."""
        return self.response.body if self.response and self.response.status_code == 200 else None

    @property
    def status(self) -> int:
        """The HTTP status of the request; 0 where it was never tried."""
        return self.response.status_code if self.response else 0

    @property
    def said(self) -> dict[str, Any]:
        """What was wrong, in the shape of OpenAI's error."""
        error = (self.response.body or {}).get("error") if self.response else None
        if isinstance(error, dict):
            return error
        fault = self.error or _Fault()
        return {"code": fault.code, "message": fault.message or fault.code or "no reason given"}


def refusal(status: int, said: dict[str, Any], where: str) -> HarnessError:
    """What a failed request of a batch means: what it would in a direct call; to try again where it was not tried."""
    if not status:
        return TransientModelError(f"The batch has no reply to this request: {said.get('message')}", where=where)
    request = httpx.Request("POST", "https://batch")
    response = httpx.Response(status, json={"error": said}, request=request)
    return meaning_of(httpx.HTTPStatusError(str(said.get("message")), request=request, response=response), where)


def batch_provider(spec: str) -> str:
    """The name by which LiteLLM's batch calls know the provider."""
    litellm = load_litellm()
    offered = get_args(inspect.signature(litellm.create_batch).parameters["custom_llm_provider"].annotation)
    provider, _ = split_spec(spec)
    if provider in offered:
        return provider
    if provider == "custom_openai" or provider in litellm.openai_compatible_providers:
        return "openai"
    raise FatalModelError(
        f"LiteLLM offers no batches of {provider}", fix=f"Leave out --batch; it works with {', '.join(offered)}"
    )


def _filename(name: str) -> str:
    return f"{_NAME}-{name}.jsonl"


async def _beside(work: Callable[[], T]) -> T:
    """`work()` in a thread that nobody waits for once this is cancelled.

    LiteLLM's asynchronous batch calls make a client each and leave its connections to whichever loop runs later.
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
    """What is on a page of a list, whose shape differs between providers."""
    found: Iterable[object] | None = page.get("data") if isinstance(page, dict) else getattr(page, "data", None)
    return found or ()


def _cannot_be_listed(error: Exception) -> bool:
    """Whether a provider does not list what it has; nothing is found then."""
    return getattr(error, "status_code", None) in (400, 404, 405, 501)
