"""Estimate the cost of answering a claim's questions before its data is here, by the source's prompt size."""

from longmemeval.llm.options import is_offline
from longmemeval.llm.rates import RateLimits
from longmemeval.llm.tokens import Call
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.estimate.assumed import REPLY_SHARE, call_seconds
from longmemeval.pipeline.estimate.stages import Pace, Replies, Stage, estimate_calls, stage
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
    work = estimate_calls(settings.model, [[Call(settings.prompt_tokens, longest)]], n, "the source's tokens")
    expected = longest * REPLY_SHARE
    return stage("answers", work, Replies(expected, call_seconds(expected), "assumed"), ONE_BY_ONE)
