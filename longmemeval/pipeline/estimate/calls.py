"""Estimate calls, their tokens and their price."""

from collections.abc import Sequence, Sized
from math import sqrt
from statistics import variance

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.llm.call_counter import Call
from longmemeval.llm.costs.prices import price
from longmemeval.llm.options import is_offline
from longmemeval.pipeline.estimate.assumed import SAMPLED
from longmemeval.records import Question


class CallEstimate(Struct, frozen=True):
    """The estimated calls of one model."""

    model: str
    calls: int | None
    """Number of calls; None, like tokens and dollars: not known yet."""
    prompt_tokens: int | None
    completion_tokens: int | None
    """Tokens if every reply had the maximum length."""
    dollars: float | None
    """Maximum cost, with replies of that length and prompts at the upper end; None: the price is not known either."""
    basis: str
    """The source of the figures."""
    least_prompt_tokens: int = 0
    """The ends of the range of `prompt_tokens`: a 95 % interval if they were estimated from some of the questions."""
    most_prompt_tokens: int = 0


def sampled_of(questions: Sequence[Question]) -> list[Question]:
    """Return a sample drawn by a hash of the ids, so always the same."""
    return sorted(questions, key=lambda question: sha256_text(question.question_id))[:SAMPLED]


def share_of(part: Sized, whole: Sized) -> str:
    """Return `20 of 500`, or `all 12`."""
    return f"{len(part):,} of {len(whole):,}" if len(part) < len(whole) else f"all {len(whole):,}"


def estimate_calls(model: str, questions: Sequence[Sequence[Call]], total: int, basis: str) -> CallEstimate:
    """Estimate the calls of `total` questions.

    Args:
        questions: the calls for each of them, or for each of a random sample.
        total: number of questions.
        basis: see `CallEstimate`.
    """
    share = total / len(questions) if questions else 0.0
    prompts = [float(sum(call.prompt_tokens for call in calls)) for calls in questions]
    tokens, margin = sum(prompts) * share, _margin(prompts, total)
    dollars = _dollars(model, questions)
    return CallEstimate(
        model=model,
        calls=round(sum(map(len, questions)) * share),
        prompt_tokens=round(tokens),
        completion_tokens=round(sum(call.max_tokens for calls in questions for call in calls) * share),
        dollars=None if dollars is None else sum(dollars) * share + _margin(dollars, total),
        basis=basis,
        least_prompt_tokens=max(0, round(tokens - margin)),
        most_prompt_tokens=round(tokens + margin),
    )


def _margin(values: Sequence[float], total: int) -> float:
    """Return half of the 95 % interval of a sum over `total`, drawn without replacement (Cochran 1977, section 2.8)."""
    drawn = len(values)
    if drawn < 2 or drawn >= total:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(drawn - 1, 0.975)) * total * sqrt(variance(values) / drawn * (1 - drawn / total))


def _dollars(model: str, questions: Sequence[Sequence[Call]]) -> list[float] | None:
    """Return the dollars of each question; None if a price is not known."""
    if is_offline(model):
        return [0.0] * len(questions)
    # Call by call: above some prompt length a token may cost more.
    prices = [[price(model, call.prompt_tokens, call.max_tokens) for call in calls] for calls in questions]
    known = [[value for value in row if value is not None] for row in prices]
    return list(map(sum, known)) if known == prices else None
