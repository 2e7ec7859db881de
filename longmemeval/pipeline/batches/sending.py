"""Send requests to the provider as batches and fetch their replies; continue batches that were begun earlier."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import msgspec
from msgspec import Struct, convert, structs

from longmemeval.core.event_loop import in_thread
from longmemeval.core.files import sha256_bytes, write_atomic
from longmemeval.core.journal import Journal, read_journal
from longmemeval.core.text.figures import count_of, in_dollars
from longmemeval.errors import BatchCancelledError, FatalModelError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs import Account, batch_price, usage_in_form
from longmemeval.llm.http.batch_endpoint import BatchEndpoint, BatchLine, BatchStatus, refusal
from longmemeval.llm.http.client import Completion, reply_of
from longmemeval.llm.http.openai_protocol import MisshapenReplyError, RefusedCall, in_form, words_of
from longmemeval.llm.protocol import ChatReply

# Record batches before and after each step, so that any process can continue them.

FOLDER = "batches"
"""The name of the folder, in the folder of a run."""
_STEPS = "steps.jsonl"


class Batch(Struct, frozen=True, omit_defaults=True):
    """A line of `steps.jsonl`: the fields that one step added; folded together, all that is known of a batch."""

    name: str
    """Our own name; also in the provider's metadata, and the account's name of its reservation."""
    ids: tuple[str, ...] = ()
    """The ids of its requests; written before anything is sent."""
    expected_usd: float | None = None
    """The most the batch may cost, in US dollars; None: unknown."""
    file: str = ""
    """The provider's id of the requests."""
    id: str = ""
    """The provider's id of the batch."""
    ended: str = ""
    """The end of the batch: completed, expired, cancelled or failed. Its replies are in `<name>.replies.jsonl`."""
    replies_sha256: str = ""
    counts: dict[str, int] = {}
    """Counts of replies, refused requests, those without either, and lines that fit no request."""


class Result(Struct, frozen=True, omit_defaults=True):
    """A line of a file of replies."""

    id: str
    reply: ChatReply | None = None
    status: int = 0
    """The HTTP status of a request without a reply; 0: it was not tried."""
    said: dict[str, Any] = {}
    """The provider's error on a request without a reply."""


def folded(steps: Iterable[Batch]) -> dict[str, Batch]:
    """Merge the steps of each batch, by name, in the order in which the batches were planned."""
    known: dict[str, Batch] = {}
    for step in steps:
        changed = {name: value for name, value in structs.asdict(step).items() if value or name == "name"}
        known[step.name] = structs.replace(known.get(step.name, step), **changed)
    return known


class BatchStore:
    """The stored batches of one stage of a run, in a folder of their own. One process at a time writes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: dict[str, Batch] = {}

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._journal = opened.enter_context(Journal(self.folder / _STEPS, Batch))
            self.batches = folded(self._journal.records())
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def write(self, step: Batch) -> Batch:
        """Append a step and return all that is now known of the batch."""
        self._journal.append(step)
        self.batches[step.name] = folded([*filter(None, [self.batches.get(step.name)]), step])[step.name]
        return self.batches[step.name]

    def requests_file(self, name: str) -> Path:
        """Return the path of a batch's requests, which exists until the provider has them."""
        return self.folder / f"{name}.requests.jsonl"

    def write_requests(self, name: str, lines: Iterable[bytes]) -> None:
        """Write the file to be uploaded."""
        _written(self.requests_file(name), b"".join(lines))

    def write_replies(self, name: str, results: Iterable[Result]) -> str:
        """Write the results of a batch and return the sha256 of the file."""
        data = b"".join(msgspec.json.encode(result) + b"\n" for result in results)
        _written(self._replies_file(name), data)
        return sha256_bytes(data)

    def replies(self, batch: Batch) -> list[Result] | None:
        """Return the results of a batch; None if the file differs from what was written and must be fetched again."""
        path = self._replies_file(batch.name)
        data = path.read_bytes() if path.exists() else b""
        if sha256_bytes(data) != batch.replies_sha256:
            return None
        return [msgspec.json.decode(line, type=Result) for line in data.splitlines()]

    def _replies_file(self, name: str) -> Path:
        return self.folder / f"{name}.replies.jsonl"


def _written(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data)
    except OSError as error:
        raise HarnessError(
            f"The batch cannot be written: {error.strerror}",
            where=str(path),
            fix="Fix this and rerun the command; finished work is kept",
        ) from error


def batches_in(folder: Path) -> list[Batch]:
    """Return the recorded batches of one stage; none if there is no such folder."""
    return list(folded(read_journal(folder / _STEPS, Batch)).values())


def batch_totals(folder: Path) -> dict[str, int]:
    """Count the batches of a stage and the outcomes of their requests."""
    batches = batches_in(folder)
    sums = sum((Counter(batch.counts) for batch in batches), Counter[str]())
    return {"batches": len(batches), "requests": sum(len(batch.ids) for batch in batches), **sums}


MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Limits of one file, by OpenAI's and Azure's documentation."""
_POLL_S, _LONGEST_POLL_S = 5.0, 60.0
_QUEUE_IS_FULL = "token_limit_exceeded"
"""The error code of a batch refused because the provider's queue has no room for all its tokens."""


class PendingRequest:
    """A request that a caller waits for.

    Args:
        id: unique in this stage, also after a restart.
        line: its line of the uploaded file.
        most: computes the US dollars that it may cost, when it is sent.
    """

    def __init__(self, id: str, line: bytes, most: Callable[[], float]) -> None:
        self.id, self.line, self._most = id, line, most
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    @cached_property
    def most(self) -> float:
        """The most that the request may cost, in US dollars."""
        return self._most()


class Sender:
    """The sender and poller of the batches of one stage.

    Args:
        store: records each step.
        account: reserves the cost of batches before they are sent; None: no reservation.
        poll_s: seconds between two polls of a batch; None: 5 at first, rising to a minute.
        tell: receives progress messages, each a sentence without the full stop.
        stir: called when something has changed for waiting callers.
    """

    def __init__(
        self,
        store: BatchStore,
        endpoint: BatchEndpoint,
        account: Account | None,
        *,
        poll_s: float | None,
        tell: Callable[[str], None],
        notify: Callable[[], None],
    ) -> None:
        self._store, self._endpoint, self._account = store, endpoint, account
        self._poll_s, self._tell, self._stir = poll_s, tell, notify
        self._known: dict[str, Result] = {}
        self._pending: dict[str, PendingRequest] = {}
        self._sent: set[str] = set()
        self._errors: dict[str, Exception] = {}
        self._most_requests = MOST_REQUESTS
        self._one_at_a_time = False
        self._wanted = False
        self._sending: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """Take up what earlier processes left: stored replies, and batches still with the provider."""
        for batch in list(self._store.batches.values()):
            replies = self._store.replies(batch) if batch.ended else None
            if replies is None and not batch.id and batch.ended:
                continue
            if replies is None:
                self._follow(batch, fresh=False)
                continue
            # An error such as a refused key has been corrected since: send these again.
            usable = [reply for reply in replies if reply.reply or not isinstance(self.fault(reply), FatalModelError)]
            self._take(batch, usable)

    def known(self, request_id: str) -> Result | None:
        """Return the result of a request; None if it is not known yet."""
        return self._known.get(request_id)

    def ask(self, request: PendingRequest) -> None:
        """Queue a request for the next batch, unless it was sent already."""
        if request.id in self._errors:
            request.result.set_exception(self._errors[request.id])
        else:
            self._pending[request.id] = request

    def send(self) -> None:
        """Send the queued requests that no batch holds yet."""
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Stop polling; batches stay with the provider."""
        tasks = [*self._following.values(), *filter(None, [self._sending])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def fault(self, result: Result) -> HarnessError:
        """Return the error that a result without a reply means."""
        return refusal(result.status, result.said, f"{self._endpoint.name}, batch")

    def may_pass(self, result: Result) -> bool:
        """Return whether a request without a reply is worth another attempt."""
        return isinstance(self.fault(result), TransientModelError)

    async def _send(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                await self._send_waiting()
            except Exception as error:
                self._fail([request.id for request in self._pending.values() if request.id not in self._sent], error)

    async def _send_waiting(self) -> None:
        while waiting := [request for request in self._pending.values() if request.id not in self._sent]:
            if self._one_at_a_time and self._following:
                return
            chosen, expected = await in_thread(self._fitting, waiting)
            if chosen:
                await self._begin(chosen, expected)
            elif self._following:
                return  # Their cost may leave enough of the limit.
            elif self._account:
                # Raises the error with the rest of the limit.
                self._account.record_cost(await self._account.reserve(waiting[0].most, self._endpoint.spec), 0.0)

    def _fitting(self, waiting: Iterable[PendingRequest]) -> tuple[list[PendingRequest], float]:
        """Return as many requests as fit one file and the money left, and what they may cost."""
        chosen: list[PendingRequest] = []
        size, expected = 0, 0.0
        room = self._account.room() if self._account else 0.0
        for request in waiting:
            most = request.most if self._account else 0.0
            if len(chosen) >= self._most_requests or size + len(request.line) > MOST_BYTES or expected + most > room:
                break
            chosen.append(request)
            size, expected = size + len(request.line), expected + most
        return chosen, expected

    async def _begin(self, chosen: Sequence[PendingRequest], expected: float) -> None:
        name, ids = uuid4().hex, tuple(request.id for request in chosen)
        await in_thread(self._store.write_requests, name, [request.line for request in chosen])
        # From here on any process that continues finds it.
        batch = self._store.write(Batch(name, ids, expected_usd=expected if self._account else None))
        if self._account:
            await self._account.reserve(expected, self._endpoint.spec, name)
        self._follow(batch, fresh=True)

    def _follow(self, batch: Batch, *, fresh: bool) -> None:
        self._sent.update(batch.ids)
        self._following[batch.name] = asyncio.create_task(self._followed(batch, fresh))

    async def _followed(self, batch: Batch, fresh: bool) -> None:
        try:
            submitted = await self._submitted(batch, fresh)
            if submitted:
                await self._end(submitted, await self._ended(submitted))
        except Exception as error:
            self._fail(batch.ids, error)
        finally:
            del self._following[batch.name]
            self._stir()

    async def _submitted(self, batch: Batch, fresh: bool) -> Batch | None:
        """Return the batch once the provider has it; None if nothing of it is left to send."""
        if batch.id:
            return batch
        requests = self._store.requests_file(batch.name)
        if not (batch.file or requests.exists()):
            self._close(batch, "abandoned", (), {})
            return None
        if self._account and not fresh:
            await self._account.reserve(batch.expected_usd or 0.0, self._endpoint.spec, batch.name)
        if not batch.file:
            file = await self._endpoint.upload(batch.name, requests, fresh=fresh)
            batch = self._store.write(Batch(batch.name, file=file))
        status = await self._endpoint.create(batch.name, batch.file, fresh=fresh)
        batch = self._store.write(Batch(batch.name, id=status.id))
        requests.unlink(missing_ok=True)
        cost = "" if batch.expected_usd is None else f", at most {in_dollars(batch.expected_usd)}"
        self._tell(f"Batch {batch.id}: {count_of(len(batch.ids), 'request')} with the provider{cost}")
        return batch

    async def _ended(self, batch: Batch) -> BatchStatus:
        pause = self._poll_s or _POLL_S
        while not (status := await self._endpoint.status(batch.id)).has_ended:
            await asyncio.sleep(pause)
            pause = self._poll_s or min(pause * 1.5, _LONGEST_POLL_S)
        return status

    async def _end(self, batch: Batch, status: BatchStatus) -> None:
        results, odd = dict[str, Result](), Counter[str]()
        for file in filter(None, (status.output_file_id, status.error_file_id)):
            content = await self._endpoint.content(file)
            await in_thread(self._read, content, frozenset(batch.ids), results, odd)
        closed = self._close(batch, status.status, results.values(), odd)
        counts = ", ".join(f"{number} {what}" for what, number in closed.counts.items())
        self._tell(f"Batch {batch.id}: {status.status}; {counts}")
        if status.status == "failed":
            self._refused(closed, status)
        elif status.status == "cancelled":
            missing = [name for name in batch.ids if name not in results]
            error = BatchCancelledError(
                f"Batch {batch.id} was cancelled at the provider: {len(missing)} of {len(batch.ids)} requests have no "
                "reply",
                fix="Rerun the same command to send these again",
            )
            self._fail(missing, error)

    def _read(self, content: bytes, ids: frozenset[str], results: dict[str, Result], odd: Counter[str]) -> None:
        """Parse the lines of a file of replies or errors. The first line of a request counts."""
        for line in content.splitlines():
            try:
                # Not msgspec's: replies can hold half of a surrogate pair, as in direct calls.
                read = convert(json.loads(line), BatchLine)
                result = self._result(read)
            except (ValueError, msgspec.MsgspecError):
                odd["unreadable"] += bool(line.strip())
                continue
            if read.custom_id not in ids or read.custom_id in results:
                odd["repeated" if read.custom_id in ids else "unknown"] += 1
            else:
                results[read.custom_id] = result

    def _result(self, line: BatchLine) -> Result:
        if line.body is None:
            return Result(line.custom_id, status=line.status, said=line.error_body)
        usage = usage_in_form(line.body.get("usage"))
        try:
            completion = convert(
                in_form(line.body | {"usage": usage}, msgspec.json.encode(line.body)), Completion, strict=False
            )
        except (TransientModelError, MisshapenReplyError) as error:
            return Result(line.custom_id, said={"message": str(error)})
        except ModelError as error:
            return Result(line.custom_id, status=422, said={"message": error.what})
        except RefusedCall as error:
            return Result(line.custom_id, status=error.status_code or 422, said={"message": words_of(line.body)})
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        cost = batch_price(self._endpoint.spec, nothing | usage)
        reply = reply_of(completion, cost.dollars if cost else None, self._endpoint.provider)
        return Result(line.custom_id, msgspec.structs.replace(reply, latency_ms=None))

    def _close(self, batch: Batch, ended: str, results: Iterable[Result], odd: Mapping[str, int]) -> Batch:
        """Record how a batch ended, and give its results to their callers."""
        results = list(results)
        replies = [result.reply for result in results if result.reply]
        sha256 = self._store.write_replies(batch.name, results)
        if self._account:
            # What nobody counted may have cost what was reserved for it.
            most = (batch.expected_usd or 0.0) / len(batch.ids)
            costs = (reply.usage.dollars for reply in replies)
            self._account.record_cost(batch.name, sum(most if cost is None else cost for cost in costs))
        counts = {"replies": len(replies), "refused": len(results) - len(replies)}
        counts |= {"unanswered": len(batch.ids) - len(results), **odd}
        nonzero = {name: number for name, number in counts.items() if number}
        batch = self._store.write(Batch(batch.name, ended=ended, replies_sha256=sha256, counts=nonzero))
        self._take(batch, results)
        return batch

    def _take(self, batch: Batch, results: Iterable[Result]) -> None:
        self._known |= {result.id: result for result in results}
        if batch.ended in ("completed", "expired"):
            missing = (name for name in batch.ids if name not in self._known)
            self._known |= {name: Result(name, said={"message": f"the batch is {batch.ended}"}) for name in missing}
        self._sent.difference_update(batch.ids)
        for name in batch.ids:
            if name in self._known and (pending := self._pending.pop(name, None)) and not pending.result.done():
                pending.result.set_result(self._known[name])

    def _refused(self, batch: Batch, status: BatchStatus) -> None:
        """Handle a refused batch: send smaller ones if the provider's queue is full, else fail its requests."""
        fault = status.fault
        if fault.code == _QUEUE_IS_FULL and len(batch.ids) > 1:
            self._most_requests, self._one_at_a_time = len(batch.ids) // 2, True
            self._tell(
                f"The provider's queue is full; batches of {self._most_requests} requests are sent one at a time now"
            )
            return
        reason = fault.message or fault.code or "no reason given"
        error = FatalModelError(f"The provider refused batch {batch.id}: {reason}", where=self._endpoint.name)
        self._fail(batch.ids, error)

    def _fail(self, ids: Iterable[str], error: Exception) -> None:
        for name in ids:
            self._errors[name] = error
            if (pending := self._pending.pop(name, None)) and not pending.result.done():
                pending.result.set_exception(error)
