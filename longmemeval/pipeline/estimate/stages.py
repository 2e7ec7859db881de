"""The stages of a command with their ranges, from replies as expected to all as long as they may be."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.core.text.figures import count_of, in_dollars, span
from longmemeval.errors import FatalModelError
from longmemeval.llm.costs.prices import batch_price, price
from longmemeval.llm.options import is_offline
from longmemeval.llm.rates.limits import RateLimits
from longmemeval.llm.registry import check_batches
from longmemeval.pipeline.estimate.assumed import BATCH_S
from longmemeval.pipeline.estimate.calls import CallEstimate
from longmemeval.pipeline.estimate.replies import ReplyStats


class StageEstimate(Struct, frozen=True):
    """The calls of one kind; None: not known."""

    name: str
    work: CallEstimate
    """The upper end of the range: replies as long as they may be."""
    reply_tokens: int | None = None
    """Tokens of replies as expected: the lower end, like `dollars`."""
    dollars: float | None = None
    seconds: float | None = None
    """At the given concurrency and limits, with replies as expected; by batch, at most."""
    replies: str = ""
    """The source of the expected length and time of replies."""
    by_batch: bool = False


class Pace(Struct, frozen=True):
    """How calls are sent."""

    rates: RateLimits
    """The limits of providers."""
    concurrency: int
    """Calls in flight at one time."""
    batch: bool = False
    """True if calls go by batch where the model has batches."""


def stage(name: str, work: CallEstimate, replies: ReplyStats, pace: Pace, *, rounds: int = 1) -> StageEstimate:
    """Return the estimate of a stage.

    Args:
        work: its calls, at the price of direct ones.
        replies: their expected length and time.
        rounds: batches of the stage that wait for one another.
    """
    if work.calls is None or work.prompt_tokens is None or work.completion_tokens is None:
        return StageEstimate(name, work, replies=replies.basis)
    tokens = min(work.completion_tokens, round(work.calls * replies.tokens))
    dollars = work.dollars
    if dollars and work.calls:
        expected = _price(work, work.least_prompt_tokens, tokens)
        dollars = None if expected is None else min(dollars, expected)
    by_batch = pace.batch and bool(work.calls) and _has_batches(work.model)
    if by_batch:
        discount = _batch_discount(work)
        dollars = None if dollars is None or discount is None else dollars * discount
        most_dollars = None if work.dollars is None or discount is None else work.dollars * discount
        work = structs.replace(work, dollars=most_dollars)
    seconds = rounds * BATCH_S if by_batch else _seconds(work, tokens, replies, pace)
    return StageEstimate(name, work, tokens, dollars, seconds, replies.basis, by_batch)


class Total(Struct, frozen=True):
    """The sum of stages, over what is known; `unknown` names the rest."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    """Tokens if every reply were as long as it may be, like `dollars`."""
    dollars: float
    reply_tokens: int
    """Tokens with replies as expected, like `expected_dollars` and `seconds`."""
    expected_dollars: float
    seconds: float
    """Seconds, one stage after the other."""
    unknown: tuple[str, ...]

    def phrase(self) -> str:
        """Return what is known in one phrase."""
        return (
            f"{count_of(self.calls, 'call')}, {self.prompt_tokens:,} prompt tokens, {self.reply_tokens:,} to "
            f"{self.completion_tokens:,} reply tokens and {span(self.expected_dollars, self.dollars, in_dollars)}"
        )


def total_of(stages: Sequence[StageEstimate]) -> Total:
    """Return the sum of stages."""
    work = [one.work for one in stages]
    unpriced = dict.fromkeys(one.model for one in work if one.dollars is None and one.calls is not None)
    later = sum(one.calls is None for one in work)
    prompts = [f"the prompts of {count_of(later, 'run')}, known after prepare"] if later else []
    return Total(
        calls=sum(one.calls or 0 for one in work),
        prompt_tokens=sum(one.prompt_tokens or 0 for one in work),
        completion_tokens=sum(one.completion_tokens or 0 for one in work),
        dollars=sum(one.dollars or 0.0 for one in work),
        reply_tokens=sum(one.reply_tokens or 0 for one in stages),
        expected_dollars=sum(one.dollars or 0.0 for one in stages),
        seconds=sum(one.seconds or 0.0 for one in stages),
        unknown=(*(f"the price of {model}" for model in unpriced), *prompts),
    )


def _seconds(work: CallEstimate, tokens: int, replies: ReplyStats, pace: Pace) -> float:
    if not work.calls or is_offline(work.model):
        return 0.0
    return max(
        work.calls * replies.seconds / min(pace.concurrency, work.calls),
        # The first call waits for nothing.
        pace.rates.of(work.model).seconds(work.calls - 1, (work.prompt_tokens or 0) + tokens),
    )


def _has_batches(model: str) -> bool:
    try:
        check_batches(model)
    except FatalModelError:
        return False
    return True


def _price(work: CallEstimate, prompt_tokens: int, completion_tokens: int) -> float | None:
    calls = work.calls or 1
    per_call = price(work.model, round(prompt_tokens / calls), round(completion_tokens / calls))
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
