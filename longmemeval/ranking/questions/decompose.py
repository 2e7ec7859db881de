"""Splitting a question about several things into several queries, by one call of a chat model.

Rules that did the same offline were removed: they lowered recall (docs/results.md).
"""

import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template

import numpy as np
from msgspec import Struct

from longmemeval.core.text.words import content_words
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.ranking.fusion import min_max
from longmemeval.ranking.history import Scores
from longmemeval.records import Usage

MAX_QUERIES = 6
"""Maximum number of queries, the question included."""
MAX_TOKENS = 300
"""Maximum tokens of a model's reply."""


class Decomposition(Struct, frozen=True):
    """A model's decomposition of a question."""

    queries: list[str]
    """The question, then its parts."""
    usage: Usage
    problem: str = ""
    """Error in an unreadable reply; there are no parts then."""


async def decompose_by_model(model: ChatModel, question: str, prompt: str | None = None) -> Decomposition:
    """Split the question into queries if it asks about several things, by one call of `model`.

    The model sees nothing but the question.

    Args:
        model: answers the call; its errors pass through.
        prompt: text with `$question` and `$limit`; None for the shipped one.

    Returns:
        The question and the parts the model names; the question alone, with the problem, if the reply contains no JSON
        list of texts.
    """
    filled = Template(prompt or shipped_prompt()).safe_substitute(question=question, limit=MAX_QUERIES - 1)
    reply = await model.complete(ChatRequest((ChatMessage("user", filled),), max_tokens=MAX_TOKENS))
    parts = _texts_in(reply.text)
    if parts is None:
        return Decomposition([question], reply.usage, "the model's reply holds no JSON list of texts")
    return Decomposition(_queries(question, parts), reply.usage)


def shipped_prompt() -> str:
    """Return the prompt of `decompose_by_model`."""
    return resources.files("longmemeval.ranking").joinpath("prompts", "decompose.txt").read_text(encoding="utf-8")


def fuse_parts(scores: Sequence[Scores], weight: float = 0.5) -> Scores:
    """Combine the scores of a question's queries: m(question) + weight * max over the parts of m(part).

    m is `min_max`: each query's scores scaled to [0, 1].

    Args:
        scores: scores of every unit by query, the whole question first; all of one shape, (units,).
        weight: weight of a part; that of the question is 1.
    """
    whole, *parts = (min_max(query_scores) for query_scores in scores)
    if not parts:
        return whole
    best: Scores = np.max(parts, axis=0)
    return whole + weight * best


def _queries(question: str, parts: Iterable[str]) -> list[str]:
    """Return the question, then its distinct parts; only the question if there are fewer than two parts."""
    distinct = {" ".join(part.casefold().split()): " ".join(part.split()) for part in parts if content_words(part)}
    distinct.pop(" ".join(question.casefold().split()), None)
    return [question, *distinct.values()][:MAX_QUERIES] if len(distinct) > 1 else [question]


def _texts_in(reply: str) -> list[str] | None:
    """Return the first JSON list of texts in `reply`, ignoring its surroundings."""
    decoder = json.JSONDecoder()
    for found in re.finditer(r"\[", reply):
        try:
            value, _ = decoder.raw_decode(reply, found.start())
        except RecursionError:
            return None
        except ValueError:
            continue
        if all(isinstance(text, str) for text in value):
            return [str(text) for text in value]
    return None
