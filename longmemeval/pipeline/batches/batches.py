"""Send the model calls of one stage of a run by batch, behind the interface of an ordinary chat model."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from longmemeval.core.event_loop import in_thread
from longmemeval.llm.costs import Account, Counted, batch_price
from longmemeval.llm.http.batch_endpoint import refused_call, request_line, request_parameters
from longmemeval.llm.http.client import is_worth_another, with_deviations, with_limit
from longmemeval.llm.http.refusals import Refusals
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.llm.reasoning import ReplyLimits
from longmemeval.llm.registry import load_batch_endpoint
from longmemeval.llm.tokens import TokenCounter, token_counter
from longmemeval.pipeline.batches.gathering import Gathering, current_work
from longmemeval.pipeline.batches.sending import BatchStore, PendingRequest, Sender, batch_totals
from longmemeval.pipeline.options import BatchOptions
from longmemeval.pipeline.workers import run_bounded
from longmemeval.records import Question, Usage

_AT_ONE_TIME = 8
"""Questions in progress before their first call: recalling, counting tokens."""
_MOST_HELD = 400_000_000
"""Bytes of requests held in memory: two full files."""
_TOKENS_AROUND = 6
"""Tokens that the chat format adds to a message."""


class _UnderWay(NamedTuple):
    gathering: Gathering
    sender: Sender


class Batches:
    """The batches of one stage of a run, as a chat model; call it within `run_bounded`.

    Args:
        folder: holds the batches' state, for this stage alone.
        model_options: connection options; attempts count as in direct calls.
        account: reserves the cost of a batch before it is sent.
        tell: receives progress messages, each a sentence without the full stop.

    Raises:
        FatalModelError: the model cannot be called, or not by batch.
    """

    def __init__(
        self,
        folder: Path,
        spec: str,
        model_options: ModelOptions,
        account: Account | None,
        options: BatchOptions,
        tell: Callable[[str], None],
    ) -> None:
        self.folder, self.spec, self._options, self._tell = folder, spec, options, tell
        self._most_attempts = model_options.max_attempts
        self._calls, self._limits = model_options.calls, ReplyLimits(spec, model_options)
        self._endpoint, self._account = load_batch_endpoint(spec, model_options, account=account)
        self._refusals = Refusals(f"{self._endpoint.name}, batch", model_options)
        self._under_way: _UnderWay | None = None

    @property
    def under_way(self) -> _UnderWay:
        """The state of the stage; an error before it has begun."""
        if self._under_way is None:
            raise RuntimeError("a model of batches is called outside of its stage")
        return self._under_way

    def waiting(self, model: ChatModel) -> ChatModel:
        """Return `model` wrapped so that this stage counts its calls as waiting (for instance an identical call)."""
        return _WaitingChatModel(self, model)

    async def run_bounded(
        self, questions: Sequence[Question], work: Callable[[Question], Awaitable[None]], earlier: Mapping[str, int]
    ) -> None:
        """Do `work` for every question; whenever all work waits for replies, send one batch with all its requests.

        Args:
            earlier: how often work on a question has ended before; repeated work makes other calls.

        Raises:
            BatchCancelledError: a batch was cancelled at the provider.
            FatalModelError, EndpointDownError, SpendingLimitError: as direct calls do.
        """
        with BatchStore(self.folder) as store:
            gathering = Gathering(_AT_ONE_TIME, _MOST_HELD, lambda: sender.send())
            poll_s, tell = self._options.poll_s, self._tell
            sender = Sender(store, self._endpoint, self._account, poll_s=poll_s, tell=tell, notify=gathering.notify)
            self._under_way = _UnderWay(gathering, sender)
            sender.resume()
            watching = asyncio.create_task(gathering.watch())

            async def alone(question: Question) -> None:
                async with gathering.work(f"{question.question_id} {earlier.get(question.question_id, 0)}"):
                    await work(question)

            try:
                await run_bounded(questions, alone, len(questions))
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
                await sender.close()

    def totals(self) -> dict[str, Any]:
        """Return the totals of the stage for the manifest."""
        return batch_totals(self.folder) | ({"price": self.price_note} if self.price_note else {})

    @property
    def price_note(self) -> str:
        """A note about an uncertain price; empty if the price is certain."""
        price = batch_price(self.spec, _usage(1, 1))
        if price is None or price.is_known:
            return ""
        return "no price for batches is known: half the ordinary price is assumed"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` from a batch: see `ChatModel`. The model's latency is unknown.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can be answered.
        """
        gathering, sender = self.under_way
        work = current_work()
        limit = self._limits.first(request.max_tokens)
        digest = sha256(f"{work.name}\n".encode() + msgspec.json.encode(self._planned(request, limit))).digest()
        work.repeats[digest] += 1
        name, usage, attempt = f"{digest.hex()[:32]}-{work.repeats[digest]}", Usage(), 0
        widened, refused = False, tuple[str, ...]()
        while True:
            attempt += 1
            notes = self._refusals.notes
            line = request_line(f"{name}-{attempt}", self._body(request, limit))
            pending = PendingRequest(f"{name}-{attempt}", line, partial(self._most, request, limit))
            result = sender.known(pending.id)
            if result is None:
                with gathering.waiting(len(pending.line)):
                    sender.ask(pending)
                    result = await pending.result
            if result.reply and result.reply.usage.estimated_calls:
                result = structs.replace(result, reply=await in_thread(self._counted, request, result.reply))
            usage += result.reply.usage if result.reply else Usage()
            may_try = attempt < self._most_attempts
            if result.reply and may_try and result.reply.is_starved and not widened:
                wider = self._limits.wider(request.max_tokens, limit)
                widened, limit = True, wider or limit
                if wider:
                    continue
            if result.reply and not (may_try and is_worth_another(result.reply, attempt)):
                reply = with_deviations(with_limit(result.reply, request, limit), notes)
                self._limits.learn(reply, limit)
                return structs.replace(reply, usage=usage, attempts=attempt)
            if not result.reply and not (may_try and sender.may_pass(result)):
                has_learnt = self._refusals.learn(
                    refused_call(result.status, result.said), self._planned(request, limit)
                )
                if not has_learnt or refused == self._refusals.notes:
                    raise sender.fault(result)
                refused = self._refusals.notes

    def _planned(self, request: ChatRequest, limit: int) -> dict[str, Any]:
        """Return the body that a direct call sends, unless something of it is refused."""
        parameters = request_parameters(self.spec, request.temperature, limit, self._calls)
        return {"messages": msgspec.to_builtins(request.messages), **parameters}

    def _body(self, request: ChatRequest, limit: int) -> bytes:
        """Return the body to send, as JSON, without what was refused."""
        return msgspec.json.encode(self._refusals.applied(self._planned(request, limit)))

    def _most(self, request: ChatRequest, limit: int) -> float:
        return self._price(self._prompt_tokens(request), limit) or 0.0

    def _prompt_tokens(self, request: ChatRequest) -> int:
        tokens = request.prompt_tokens
        if tokens is None:
            tokens = sum(self._counter.count(message.content) for message in request.messages)
        return tokens + _TOKENS_AROUND * len(request.messages)

    def _price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        price = batch_price(self.spec, _usage(prompt_tokens, completion_tokens))
        return price.dollars if price else None

    def _counted(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Return a reply with our own count of the tokens that the provider did not count."""
        counted = Counted(reply.usage.prompt_tokens, reply.usage.completion_tokens)
        own = self._prompt_tokens(request), self._counter.count(reply.whole)
        return structs.replace(reply, usage=counted.usage(*own, self._price))

    @cached_property
    def _counter(self) -> TokenCounter:
        return token_counter(self.spec)


class _WaitingChatModel:
    def __init__(self, batches: Batches, model: ChatModel) -> None:
        self.spec, self._batches, self._model = model.spec, batches, model

    async def complete(self, request: ChatRequest) -> ChatReply:
        with self._batches.under_way.gathering.waiting():
            return await self._model.complete(request)


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}
