"""The stages of a command with their ranges, from expected replies to replies of maximum length."""

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
    """The calls of one kind; None means unknown."""

    name: str
    work: CallEstimate
    """The upper end of the range: replies of maximum length."""
    reply_tokens: int | None = None
    """Tokens of expected replies: the lower end of the range, like `dollars`."""
    dollars: float | None = None
    seconds: float | None = None
    """Duration at the given concurrency and limits, with expected replies; by batch, the maximum."""
    replies: str = ""
    """The source of the expected length and time of replies."""
    by_batch: bool = False


class Pace(Struct, frozen=True):
    """The rate and concurrency of calls."""

    rates: RateLimits
    """The limits of providers."""
    concurrency: int
    """Calls in flight at one time."""
    batch: bool = False
    """True if calls go by batch, if the model has batches."""


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
    """Tokens if every reply had the maximum length, like `dollars`."""
    dollars: float
    reply_tokens: int
    """Tokens of expected replies, like `expected_dollars` and `seconds`."""
    expected_dollars: float
    seconds: float
    """Seconds, one stage after the other."""
    unknown: tuple[str, ...]

    def phrase(self) -> str:
        """Return the known sums in one phrase."""
        return (
            f"{count_of(self.calls, 'call')}, {self.prompt_tokens:,} prompt tokens, {self.reply_tokens:,} to "
            f"{self.completion_tokens:,} reply tokens and {span(self.expected_dollars, self.dollars, in_dollars)}"
        )


def total_of(stages: Sequence[StageEstimate]) -> Total:
    """Return the sum of stages."""
    work = [entry.work for entry in stages]
    unpriced = dict.fromkeys(calls.model for calls in work if calls.dollars is None and calls.calls is not None)
    later = sum(calls.calls is None for calls in work)
    prompts = [f"the prompts of {count_of(later, 'run')}, known after prepare"] if later else []
    return Total(
        calls=sum(calls.calls or 0 for calls in work),
        prompt_tokens=sum(calls.prompt_tokens or 0 for calls in work),
        completion_tokens=sum(calls.completion_tokens or 0 for calls in work),
        dollars=sum(calls.dollars or 0.0 for calls in work),
        reply_tokens=sum(entry.reply_tokens or 0 for entry in stages),
        expected_dollars=sum(entry.dollars or 0.0 for entry in stages),
        seconds=sum(entry.seconds or 0.0 for entry in stages),
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
