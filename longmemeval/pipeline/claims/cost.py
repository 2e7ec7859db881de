"""Estimate the cost of answering a claim's questions before its data is here, by the source's prompt size."""

from longmemeval.llm.costs.prices import price
from longmemeval.llm.options import is_offline
from longmemeval.llm.rates.limits import RateLimits
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.estimate.assumed import REPLY_SHARE, call_seconds
from longmemeval.pipeline.estimate.stages import Calls, Pace, Replies, Stage, stage
from longmemeval.reading.configuration import longest_answer
from longmemeval.reading.options import ReadingOptions

ONE_BY_ONE = Pace(RateLimits(), 1)


def answering_cost(claim: Claim, questions: int | None = None) -> Stage | None:
    """Return the estimate of the answers alone: grading and preparing come on top.

    Args:
        questions: number of questions; None: all of the claim's.

    Returns:
        None: no paid model answers, or the number of questions or tokens is unknown.
    """
    settings, n = claim.settings, questions or claim.n
    if settings is None or not settings.model or is_offline(settings.model) or not n or not settings.prompt_tokens:
        return None
    longest = longest_answer(ReadingOptions(**settings.reading))
    most = price(settings.model, settings.prompt_tokens, longest)
    tokens = n * settings.prompt_tokens
    work = Calls(
        model=settings.model,
        calls=n,
        prompt_tokens=tokens,
        completion_tokens=n * longest,
        dollars=None if most is None else most * n,
        basis="the source's tokens",
        least_prompt_tokens=tokens,
        most_prompt_tokens=tokens,
    )
    expected = longest * REPLY_SHARE
    return stage("answers", work, Replies(expected, call_seconds(expected), "assumed"), ONE_BY_ONE)
