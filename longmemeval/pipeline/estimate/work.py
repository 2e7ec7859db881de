"""Calls that would be made: their tokens and their price."""

from collections.abc import Sequence, Sized

from msgspec import Struct

from longmemeval.costs.prices import price
from longmemeval.files import sha256_text
from longmemeval.llm.call_counter import Call
from longmemeval.llm.options import is_offline
from longmemeval.records import Question

SAMPLED = 20
"""Questions whose prompts are made; the others are taken to be like them."""


class Work(Struct, frozen=True):
    """Calls of one model."""

    model: str
    calls: int | None
    """None, like tokens and dollars: not known yet."""
    prompt_tokens: int | None
    completion_tokens: int | None
    """If every reply were as long as it may be."""
    dollars: float | None
    """With replies of that length; None where the price is not known either."""
    basis: str
    """What the figures come from."""


def sampled_of(questions: Sequence[Question]) -> list[Question]:
    """Always the same ones, drawn by a hash of their ids."""
    return sorted(questions, key=lambda question: sha256_text(question.question_id))[:SAMPLED]


def share_of(part: Sized, whole: Sized) -> str:
    """`20 of 500`, or `all 12`."""
    return f"{len(part)} of {len(whole)}" if len(part) < len(whole) else f"all {len(whole)}"


def work_of(model: str, calls: Sequence[Call], share: float, basis: str) -> Work:
    """`calls` and as many more of their kind as `share` says."""
    return Work(
        model=model,
        calls=round(len(calls) * share),
        prompt_tokens=round(sum(call.prompt_tokens for call in calls) * share),
        completion_tokens=round(sum(call.max_tokens for call in calls) * share),
        dollars=_dollars(model, calls, share),
        basis=basis,
    )


def _dollars(model: str, calls: Sequence[Call], share: float) -> float | None:
    if not calls or is_offline(model):
        return 0.0
    # Call by call: above some prompt length a token may cost more.
    prices = [price(model, call.prompt_tokens, call.max_tokens) for call in calls]
    known = [one for one in prices if one is not None]
    return sum(known) * share if len(known) == len(prices) else None
