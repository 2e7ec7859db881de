"""Stages of a command with their ranges, from replies as expected to all as long as they may be."""

from msgspec import Struct, structs

from longmemeval.errors import FatalModelError
from longmemeval.llm.costs.prices import batch_price, price
from longmemeval.llm.options import is_offline
from longmemeval.llm.rates.limits import RateLimits
from longmemeval.llm.registry import check_batches
from longmemeval.pipeline.estimate.measured import ReplyStats
from longmemeval.pipeline.estimate.work import CallEstimate

DAY_S = 86_400.0
"""Seconds in which providers answer a batch."""


class Stage(Struct, frozen=True):
    """One kind of call; None: not known."""

    name: str
    work: CallEstimate
    """The upper end of the range: replies as long as they may be."""
    reply_tokens: int | None
    """Tokens of replies as expected: the lower end, like `dollars`."""
    dollars: float | None
    seconds: float | None
    """At the given concurrency and limits, with replies as expected; by batch, at most."""


class Stages:
    """The collected stages.

    Args:
        rates: the limits of providers.
        batch: whether calls go by batch, if the model has batches.
    """

    def __init__(self, rates: RateLimits, *, batch: bool = False) -> None:
        self._rates, self._batch = rates, batch
        self.found: list[Stage] = []
        self._by_batch: list[str] = []

    @property
    def by_batch(self) -> tuple[str, ...]:
        """The names of the stages whose calls go by batch."""
        return tuple(self._by_batch)

    def add(self, name: str, work: CallEstimate, replies: ReplyStats, concurrency: int, *, rounds: int = 1) -> Stage:
        """Add a stage and return it.

        Args:
            work: its calls, at the price of direct ones.
            replies: their expected length and time.
            concurrency: calls in flight at one time.
            rounds: batches of the stage that wait for one another.
        """
        if work.calls is None or work.prompt_tokens is None or work.completion_tokens is None:
            return self._keep(Stage(name, work, None, None, None))
        most = work.completion_tokens
        tokens = min(most, round(work.calls * replies.tokens))
        by_batch = self._batch and bool(work.calls) and _has_batches(work.model)
        dollars = work.dollars
        if dollars and work.calls:
            expected_dollars = _price(work, work.least_prompt_tokens, tokens)
            dollars = None if expected_dollars is None else min(dollars, expected_dollars)
        if by_batch:
            self._by_batch.append(name)
            discount = _batch_discount(work)
            dollars = None if dollars is None or discount is None else dollars * discount
            most_dollars = None if work.dollars is None or discount is None else work.dollars * discount
            work = structs.replace(work, dollars=most_dollars)
        seconds = rounds * DAY_S if by_batch else self._seconds(work, tokens, replies, concurrency)
        return self._keep(Stage(name, work, tokens, dollars, seconds))

    def _keep(self, stage: Stage) -> Stage:
        self.found.append(stage)
        return stage

    def _seconds(self, work: CallEstimate, tokens: int, replies: ReplyStats, concurrency: int) -> float:
        if not work.calls or is_offline(work.model):
            return 0.0
        return max(
            work.calls * replies.seconds / min(concurrency, work.calls),
            # The first call waits for nothing.
            self._rates.of(work.model).seconds(work.calls - 1, (work.prompt_tokens or 0) + tokens),
        )


def _has_batches(model: str) -> bool:
    try:
        check_batches(model)
    except FatalModelError:
        return False
    return True


def _price(work: CallEstimate, prompt_tokens: int, completion_tokens: int) -> float | None:
    calls = work.calls or 1
    per_call = price(work.model, prompt_tokens // calls, completion_tokens // calls)
    return None if per_call is None else per_call * calls


def _batch_discount(work: CallEstimate) -> float | None:
    """Return the price of a call by batch as a share of its direct price; None if the price is not known."""
    prompt, completion = ((tokens or 0) // (work.calls or 1) for tokens in (work.prompt_tokens, work.completion_tokens))
    direct = price(work.model, prompt, completion)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    batch = batch_price(work.model, usage)
    if direct is None or batch is None:
        return None
    return batch.dollars / direct if direct else 1.0
