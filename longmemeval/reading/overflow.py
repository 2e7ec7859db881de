"""Handling of a prompt larger than the model's window: always explicit, never silent."""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.errors import ContextOverflowError
from longmemeval.reading.options import OverflowPolicy
from longmemeval.records import Recall

# The official reader keeps the same margin: limit = window - generation length - 1000
# (src/generation/run_generation.py). It covers the tokens that a provider adds to the prompt.
MARGIN_TOKENS = 1000

P = TypeVar("P")


class Fitted(Struct, Generic[P], frozen=True):
    """A prompt that fits, with the part of the recall it contains; a note of the recall records what was dropped."""

    prompt: P
    prompt_tokens: int
    recall: Recall


def fit(
    recall: Recall,
    render: Callable[[Recall], P],
    count: Callable[[P, Recall], int],
    limit: int | None,
    policy: OverflowPolicy,
) -> Fitted[P]:
    """Render the prompt and, if it exceeds `limit` tokens, follow `policy`.

    Args:
        recall: result of the memory system.
        render: renders a recall to the whole prompt as it will be sent.
        count: counts the tokens of a prompt rendered from a recall.
        limit: maximum tokens of a prompt; None when the model's window is not known.
        policy: `error` refuses; `drop-oldest` and `drop-newest` remove whole messages from that end of the
            history, no more than needed for the prompt to fit. Documents (working memory) are never dropped.

    Raises:
        ContextOverflowError: the prompt does not fit, and shortening it is not allowed or not possible.
    """

    def fitted(shown: Recall) -> Fitted[P]:
        prompt = render(shown)
        return Fitted(prompt, count(prompt, shown), shown)

    whole = fitted(recall)
    if limit is None or whole.prompt_tokens <= limit:
        return whole
    if policy == "error":
        raise ContextOverflowError(f"The prompt has {whole.prompt_tokens} tokens, {limit} fit the model's window")
    order = [place for place, item in enumerate(recall.items) if item.kind == "message"]
    if policy == "drop-newest":
        order.reverse()
    too_few, enough = 0, len(order)
    best = fitted(_without(recall, order))
    if best.prompt_tokens > limit:
        raise ContextOverflowError(
            f"The prompt has {best.prompt_tokens} tokens without any message, {limit} fit the model's window"
        )
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        shorter = fitted(_without(recall, order[:middle]))
        if shorter.prompt_tokens <= limit:
            best, enough = shorter, middle
        else:
            too_few = middle
    dropped = sum(len(recall.items[place].message_ids) for place in order[:enough])
    change = f"{whole.prompt_tokens} -> {best.prompt_tokens} prompt tokens, limit {limit}"
    note = f"{policy}: {dropped} messages left out, {change}"
    return replace(best, recall=replace(best.recall, notes=(*recall.notes, note), dropped=dropped))


def _without(recall: Recall, places: Collection[int]) -> Recall:
    dropped = set(places)
    return replace(recall, items=tuple(item for place, item in enumerate(recall.items) if place not in dropped))
