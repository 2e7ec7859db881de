"""A question that asks about several things, as several queries: by rules offline, or by one call of a chat model.

The rules know how English joins things, nothing of what is joined: clauses with question words of their own, two ends
of a span of time, alternatives after a comma, and lists in a sentence. What a list shares with the rest of its
sentence stays in each part.

Measured on LoCoMo with the hybrid retriever and all-MiniLM-L6-v2, the rules and `fuse_parts` do not pay: 285 of 1986
questions get parts, and recall@10 over all questions goes from 83.9 to 83.6 percent (multi-hop: 51.3 to 50.8, while its
recall@50 goes from 78.5 to 78.9).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from string import Template

import numpy as np
from msgspec import Struct

from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.records import Usage
from longmemeval.retrieval.fusion import min_max
from longmemeval.retrieval.history import Scores
from longmemeval.words import content_words

MAX_QUERIES = 6
"""The question and its parts together."""
MAX_TOKENS = 300
"""Of a model's reply."""

_TOKEN = re.compile(r"\w+(?:['\u2019.-]\w+)*|[,;:]")
_QUESTION_WORD = r"(?:who|whom|whose|what|when|where|which|why|how)"
_NEXT_CLAUSE = re.compile(
    rf"[,;]?\s+(?:and|or|but)\s+(?:also\s+|then\s+)?(?=(?:\w+ )?{_QUESTION_WORD}\b)", re.IGNORECASE
)
_REFERS_BACK = re.compile(
    r"\b(?:he|she|it|they|him|her|his|its|them|their|there|then|that|this|those|these|one|ones)\b", re.IGNORECASE
)
_BETWEEN = re.compile(r"^(.*?)\bbetween\b(.+?)\b(?:and|or)\b(.+)$", re.IGNORECASE)
_ALTERNATIVES = re.compile(
    r"^(.*\b(?:first|last|later|more|most|less|least|better|best|[a-z]+er|[a-z]+est))[,:](.+?),?\s+or\b(.+)$",
    re.IGNORECASE,
)
_ABOUT_TIME = re.compile(
    r"^(?:(?:\w+ )?how (?:long|many (?:minutes|hours|days|weeks|months|years))|did|was|were|had|have|has)\b",
    re.IGNORECASE,
)
_TIME_CONNECTIVE = re.compile(r"\b(?:before or after|before|after|since|until|when|by the time)\b", re.IGNORECASE)
_AUXILIARY_AFTER = re.compile(r"\b(?:did|do|does|had|have|has|was|were)\b", re.IGNORECASE)

_COORDINATORS = frozenset({"and", "or", "versus", "vs"})
_DETERMINERS = frozenset(
    _TOKEN.findall("the a an my your his her its our their this that these those some any each both either")
)
_BORDERS = _COORDINATORS | frozenset(
    _TOKEN.findall(
        """
        , ; : about add adds after am are as at be been before being besides by came can come comes cost costs could did
        do does during for from get got had happen happened has have he how i if in into is it like make on onto or over
        she should since start started sum take takes than then they to took total until up was we were what when where
        which who whom whose why will with without would you
        """
    )
)
"""Where a listed thing cannot go on; "of" is missing, since it can ("the price of the car")."""
_MEASURE = frozenset(
    _TOKEN.findall(
        """
        add added adds altogether amount came combine combined come comes compare compared difference earlier earliest
        elapsed first happen happened happens later latest long occur occurred passed sooner sum time together total
        day days hour hours minute minutes month months week weeks year years
        """
    )
)
"""What is done with the things once they are found; nothing in the history is found by it."""


class Decomposition(Struct, frozen=True):
    """What a model made of a question."""

    queries: list[str]
    """The question, then its parts."""
    usage: Usage
    problem: str = ""
    """What is wrong with a reply that could not be read; there are no parts then."""


def decompose(question: str) -> list[str]:
    """The question and, if it asks about several things, a query for each of them.

    Returns:
        At most `MAX_QUERIES` queries: the question as it is, then its parts in its order; the question alone when the
        rules find fewer than two parts. Parts made from a list hold the words to search for only.
    """
    parts = [part for clause in _clauses(question) for part in _parts_of_clause(clause)]
    return _queries(question, parts)


async def decompose_by_model(model: ChatModel, question: str, prompt: str | None = None) -> Decomposition:
    """The same by one call of `model`, which sees nothing but the question.

    Args:
        model: answers the call; its errors pass through.
        question: what is asked.
        prompt: text with `$question` and `$limit`; None for the shipped one.

    Returns:
        The question and the parts the model names; the question alone, with the problem, when the reply is no JSON list
        of texts.
    """
    filled = Template(prompt or shipped_prompt()).safe_substitute(question=question, limit=MAX_QUERIES - 1)
    reply = await model.complete(ChatRequest((ChatMessage("user", filled),), max_tokens=MAX_TOKENS))
    parts = _texts_in(reply.text)
    if parts is None:
        return Decomposition([question], reply.usage, "the model's reply holds no JSON list of texts")
    return Decomposition(_queries(question, parts), reply.usage)


def shipped_prompt() -> str:
    """The prompt of `decompose_by_model`."""
    return resources.files("longmemeval.retrieval").joinpath("prompts", "decompose.txt").read_text(encoding="utf-8")


def fuse_parts(scores: Sequence[Scores], weight: float = 0.5) -> Scores:
    """The scores of all queries of a question in one: m(question) + weight * max over the parts of m(part).

    m is `min_max`: each query's scores moved and stretched to [0, 1].

    Args:
        scores: for each query the score of every unit, the whole question first; all of one shape, (units,).
        weight: what a part counts, the question having 1.
    """
    whole, *parts = (min_max(one) for one in scores)
    if not parts:
        return whole
    best: Scores = np.max(parts, axis=0)
    return whole + weight * best


def _queries(question: str, parts: Iterable[str]) -> list[str]:
    """The question, then its distinct parts; alone when they are fewer than two."""
    distinct = {" ".join(part.casefold().split()): " ".join(part.split()) for part in parts if content_words(part)}
    distinct.pop(" ".join(question.casefold().split()), None)
    return [question, *distinct.values()][:MAX_QUERIES] if len(distinct) > 1 else [question]


def _clauses(question: str) -> Iterator[str]:
    """The questions within `question`; one that refers back gets the words of the one before it."""
    before = ""
    for sentence in question.split("?"):
        for clause in [sentence] if _BETWEEN.search(sentence) else _NEXT_CLAUSE.split(sentence):
            if not content_words(clause):
                continue
            refers_back = before and _REFERS_BACK.search(clause)
            before = f"{_keywords(_TOKEN.findall(before))} {clause.strip()}" if refers_back else clause.strip()
            yield before


def _parts_of_clause(clause: str) -> list[str]:
    """What one clause asks about: the two ends of a span, alternatives, events, listed things, or the clause itself."""
    for rule in (_ends_of_span, _alternatives, _events, _listed):
        parts = [part for part in rule(clause) if part]
        if len(parts) > 1:
            return parts
    return [clause]


def _ends_of_span(clause: str) -> list[str]:
    """Between A and B: A and B, each with what stands before."""
    found = _BETWEEN.match(clause)
    if not found:
        return []
    head, *ends = (_TOKEN.findall(text) for text in found.groups())
    return [_keywords([*head, *end]) for end in ends if _keywords(end)]


def _alternatives(clause: str) -> list[str]:
    """Which is more, A or B: A and B, each with what is asked of them."""
    found = _ALTERNATIVES.match(clause)
    if not found:
        return []
    head, *items = (_TOKEN.findall(text) for text in (found[1], *found[2].split(","), found[3]))
    return [_keywords([*head, *item]) for item in items if _keywords(item)]


def _events(clause: str) -> list[str]:
    """How long after A did B, did A happen before B: A and B."""
    if not (_ABOUT_TIME.match(clause) and _TIME_CONNECTIVE.search(clause)):
        return []
    pieces = [piece for text in _TIME_CONNECTIVE.split(clause) for piece in _AUXILIARY_AFTER.split(text)]
    return [_keywords(_TOKEN.findall(piece)) for piece in pieces]


def _listed(clause: str) -> list[str]:
    """Things joined by commas and "and" or "or", each with what the sentence says of all of them."""
    tokens = _TOKEN.findall(clause)
    for place, token in enumerate(tokens):
        if token.casefold() not in _COORDINATORS:
            continue
        last = _last_item(tokens, place + 1)
        first, items = _items_before(tokens, place, tokens[place + 1 : last])
        items.append(tokens[place + 1 : last])
        if all(_keywords(item) for item in items):
            head, tail = tokens[:first], tokens[last:]
            return [_keywords([*head, *item, *tail]) for item in items]
    return []


def _last_item(tokens: Sequence[str], start: int) -> int:
    """Where the thing that begins at `start` ends: a run of names, or up to a word that cannot belong to it."""
    if tokens[start : start + 1] and _is_name(tokens[start]):
        return next((place for place in range(start, len(tokens)) if not _is_name(tokens[place])), len(tokens))
    for place in range(start, len(tokens)):
        word = tokens[place].casefold()
        opens = place == start or tokens[place - 1].casefold() == "of"
        if word in _BORDERS or (word in _DETERMINERS and not opens):
            return place
    return len(tokens)


def _items_before(tokens: Sequence[str], end: int, following: Sequence[str]) -> tuple[int, list[Sequence[str]]]:
    """The things listed before the coordinator at `end`, and the place where the first begins.

    All but the first stand between commas. The first is built like its follower: from its determiner if that has one,
    else as many words as that has.
    """
    items: list[Sequence[str]] = []
    end -= int(tokens[end - 1 : end] == [","])
    while True:
        start = _item_start(tokens, end, following)
        comma = next((place for place in range(end - 1, -1, -1) if tokens[place] == ","), -1)
        if comma < 0 or any(token.casefold() in _BORDERS for token in tokens[comma + 1 : end]):
            return start, [tokens[start:end], *items]
        following = tokens[comma + 1 : end]
        items.insert(0, following)
        end = comma


def _item_start(tokens: Sequence[str], end: int, following: Sequence[str]) -> int:
    if following and following[0].casefold() in _DETERMINERS:
        for place in range(end - 1, -1, -1):
            if tokens[place].casefold() in _DETERMINERS:
                return place
    start = end
    while start and end - start < len(following) and tokens[start - 1].casefold() not in _BORDERS | _DETERMINERS:
        start -= 1
    return start


def _is_name(token: str) -> bool:
    return token[0].isupper() and token != "I"


def _keywords(tokens: Sequence[str]) -> str:
    """The words of `tokens` worth searching for, once each."""
    words = {token.casefold(): token for token in tokens if token.casefold() not in _MEASURE}
    return " ".join(word for word in words.values() if content_words(word))


def _texts_in(reply: str) -> list[str] | None:
    """The first JSON list of texts in `reply`, whatever stands around it."""
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
