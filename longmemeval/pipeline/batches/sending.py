"""From requests to batches at the provider, and back to replies; whatever was begun before goes on."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from uuid import uuid4

import msgspec
from msgspec import convert

from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.plural import count_of
from longmemeval.errors import BatchCancelledError, FatalModelError, HarnessError, TransientModelError
from longmemeval.llm.costs.prices import batch_price
from longmemeval.llm.costs.spending import Account, shown_dollars
from longmemeval.llm.http.batch_endpoint import BatchEndpoint, BatchLine, BatchStatus, refusal
from longmemeval.llm.http.client import Completion, reply_of
from longmemeval.pipeline.batches.state import Batch, BatchStore, Result

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Of one file, by OpenAI's and Azure's limits."""
_POLL_S, _LONGEST_POLL_S = 5.0, 60.0
_QUEUE_IS_FULL = "token_limit_exceeded"
"""The code of a batch that is refused because the provider's queue has no room for all its tokens."""


class Asked:
    """A request that somebody waits for.

    Args:
        id: tells it from all others of this stage, now and after a restart.
        line: of the file that is uploaded.
        most: US dollars that it may cost, worked out when it is sent.
    """

    def __init__(self, id: str, line: bytes, most: Callable[[], float]) -> None:
        self.id, self.line, self._most = id, line, most
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    @cached_property
    def most(self) -> float:
        """US dollars that it may cost."""
        return self._most()


class Sender:
    """The batches of one stage while it is under way.

    Args:
        store: where each step is written down.
        endpoint: where batches go.
        account: where their cost is set aside before they are sent; None: nowhere.
        poll_s: seconds between two looks at a batch; None: 5, and then longer up to a minute.
        tell: gets what is worth knowing, one sentence without the full stop.
        stir: called when something has changed for those who wait.
    """

    def __init__(
        self,
        store: BatchStore,
        endpoint: BatchEndpoint,
        account: Account | None,
        *,
        poll_s: float | None,
        tell: Callable[[str], None],
        stir: Callable[[], None],
    ) -> None:
        self._store, self._endpoint, self._account = store, endpoint, account
        self._poll_s, self._tell, self._stir = poll_s, tell, stir
        self._known: dict[str, Result] = {}
        self._asked: dict[str, Asked] = {}
        self._sent: set[str] = set()
        self._errors: dict[str, Exception] = {}
        self._most_requests = MOST_REQUESTS
        self._one_at_a_time = False
        self._wanted = False
        self._sending: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """Take up what earlier processes left: replies that are there, and batches that are under way."""
        for batch in list(self._store.batches.values()):
            replies = self._store.replies(batch) if batch.ended else None
            if replies is None and not batch.id and batch.ended:
                continue
            if replies is None:
                self._follow(batch, fresh=False)
                continue
            # A refused key, say: it has been seen to since.
            kept = [one for one in replies if one.reply or not isinstance(self.fault(one), FatalModelError)]
            self._take(batch, kept)

    def known(self, request_id: str) -> Result | None:
        """What became of a request, where that is known."""
        return self._known.get(request_id)

    def ask(self, one: Asked) -> None:
        """Have a request sent with the next batch, unless it is under way already."""
        if one.id in self._errors:
            one.result.set_exception(self._errors[one.id])
        else:
            self._asked[one.id] = one

    def send(self) -> None:
        """Send what is asked for and not under way."""
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Stop looking; batches stay with the provider."""
        tasks = [*self._following.values(), *filter(None, [self._sending])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def fault(self, result: Result) -> HarnessError:
        """What a result without a reply means."""
        return refusal(result.status, result.said, f"{self._endpoint.name}, batch")

    def may_pass(self, result: Result) -> bool:
        """Whether a request that got no reply is worth another attempt."""
        return isinstance(self.fault(result), TransientModelError)

    async def _send(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                await self._send_waiting()
            except Exception as error:
                self._fail([one.id for one in self._asked.values() if one.id not in self._sent], error)

    async def _send_waiting(self) -> None:
        while waiting := [one for one in self._asked.values() if one.id not in self._sent]:
            if self._one_at_a_time and self._following:
                return
            chosen, expected = await in_thread(self._fitting, waiting)
            if chosen:
                await self._begin(chosen, expected)
            elif self._following:
                return  # What they leave of the limit may do.
            elif self._account:
                # Says what is left of the limit.
                self._account.record_cost(await self._account.reserve(waiting[0].most, self._endpoint.spec), 0.0)

    def _fitting(self, waiting: Iterable[Asked]) -> tuple[list[Asked], float]:
        """As many requests as one file, and what is left to spend, have room for; and what they may cost."""
        chosen: list[Asked] = []
        size, expected = 0, 0.0
        room = self._account.room() if self._account else 0.0
        for one in waiting:
            most = one.most if self._account else 0.0
            if len(chosen) >= self._most_requests or size + len(one.line) > MOST_BYTES or expected + most > room:
                break
            chosen.append(one)
            size, expected = size + len(one.line), expected + most
        return chosen, expected

    async def _begin(self, chosen: Sequence[Asked], expected: float) -> None:
        name, ids = uuid4().hex, tuple(one.id for one in chosen)
        await in_thread(self._store.write_requests, name, [one.line for one in chosen])
        # From here on whatever process goes on knows of it.
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
        """The batch, once the provider has it; None where nothing of it is left that could be sent."""
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
        cost = "" if batch.expected_usd is None else f", at most {shown_dollars(batch.expected_usd)}"
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
        told = ", ".join(f"{number} {what}" for what, number in closed.counts.items())
        self._tell(f"Batch {batch.id}: {status.status}; {told}")
        if status.status == "failed":
            self._refused(closed, status)
        elif status.status == "cancelled":
            missing = [one for one in batch.ids if one not in results]
            error = BatchCancelledError(
                f"Batch {batch.id} was cancelled at the provider: {len(missing)} of {len(batch.ids)} requests have no "
                "reply",
                fix="Rerun the same command to send these again",
            )
            self._fail(missing, error)

    def _read(self, content: bytes, ids: frozenset[str], results: dict[str, Result], odd: Counter[str]) -> None:
        """Take in the lines of a file of replies or errors. The first line of a request counts."""
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
            return Result(line.custom_id, status=line.status, said=line.said)
        completion = convert(line.body, Completion)
        usage = line.body.get("usage") or {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        cost = batch_price(self._endpoint.spec, usage)
        reply = reply_of(completion, cost.dollars if cost else None, self._endpoint.provider)
        return Result(line.custom_id, msgspec.structs.replace(reply, latency_ms=None))

    def _close(self, batch: Batch, ended: str, results: Iterable[Result], odd: Mapping[str, int]) -> Batch:
        """Write down how a batch ended, and give its results to those who wait."""
        results = list(results)
        replies = [one.reply for one in results if one.reply]
        sha256 = self._store.write_replies(batch.name, results)
        if self._account:
            self._account.record_cost(batch.name, sum(reply.usage.cost_usd for reply in replies))
        counts = {"replies": len(replies), "refused": len(results) - len(replies)}
        counts |= {"unanswered": len(batch.ids) - len(results), **odd}
        told = {name: number for name, number in counts.items() if number}
        batch = self._store.write(Batch(batch.name, ended=ended, replies_sha256=sha256, counts=told))
        self._take(batch, results)
        return batch

    def _take(self, batch: Batch, results: Iterable[Result]) -> None:
        self._known |= {one.id: one for one in results}
        if batch.ended in ("completed", "expired"):
            missing = (one for one in batch.ids if one not in self._known)
            self._known |= {one: Result(one, said={"message": f"the batch is {batch.ended}"}) for one in missing}
        self._sent.difference_update(batch.ids)
        for name in batch.ids:
            if name in self._known and (asked := self._asked.pop(name, None)) and not asked.result.done():
                asked.result.set_result(self._known[name])

    def _refused(self, batch: Batch, status: BatchStatus) -> None:
        """The provider takes a batch as a whole or not at all; where its queue is full, it gets less at a time."""
        fault = status.fault
        if fault.code == _QUEUE_IS_FULL and len(batch.ids) > 1:
            self._most_requests, self._one_at_a_time = len(batch.ids) // 2, True
            self._tell(f"The provider's queue is full; batches of {self._most_requests} requests go one at a time now")
            return
        said = fault.message or fault.code or "no reason given"
        error = FatalModelError(f"The provider refused batch {batch.id}: {said}", where=self._endpoint.name)
        self._fail(batch.ids, error)

    def _fail(self, ids: Iterable[str], error: Exception) -> None:
        for name in ids:
            self._errors[name] = error
            if (asked := self._asked.pop(name, None)) and not asked.result.done():
                asked.result.set_exception(error)
