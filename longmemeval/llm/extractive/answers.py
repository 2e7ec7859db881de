"""The answer to a question, found in recalled passages by rules."""

from collections.abc import Sequence
from datetime import datetime

from longmemeval.llm.extractive import times
from longmemeval.llm.extractive.asked import Asked, take_apart
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.sentences import sentences_of
from longmemeval.llm.extractive.tastes import taste
from longmemeval.llm.extractive.totals import total
from longmemeval.llm.extractive.updates import choose
from longmemeval.llm.extractive.values import found
from longmemeval.llm.protocol import Passage

LEAST_COVERAGE = 0.5
"""A question is answered where one session holds at least this share of its words, related forms included."""
_FIRST_REPLY = 0.6
"""The earliest reply with at least this share of the best match counts: advice is given first and then discussed."""
_SHORT = 8
"""A sentence of fewer words is told with the one after it."""


def find_answer(question: str, passages: Sequence[Passage], question_date: datetime | None = None) -> str | None:
    """The answer to a question, in the words of the passages or worked out of their values and dates.

    Args:
        question: the question.
        passages: what was recalled, oldest first. Without dates each stands alone, and nothing is worked out of dates.
        question_date: when it is asked.

    Returns:
        One to three sentences, or a value; None where nothing answers.
    """
    asked, matcher = take_apart(question), Matcher(passages)
    if asked.advice:
        return taste(asked, matcher)
    compared = times.compare(asked, matcher, question_date)
    if compared is not None:
        return compared or None
    every = matcher.candidates(asked)
    candidates = [one for one in every if one.coverage >= LEAST_COVERAGE]
    if asked.total and (whole := total(asked, matcher, every if candidates else ())):
        return whole
    if not candidates:
        return None
    if asked.of_assistant and (replies := [one for one in candidates if one.speaker.lower() == "assistant"]):
        return _reply(asked, candidates, replies)
    best = choose(asked, matcher, candidates)
    if best is None:
        return None
    if asked.kind == "date":
        return times.day_named(best) or best.sentence.text
    return best.sentence.text if asked.kind else _told(best, passages[best.passage])


def _told(best: Candidate, passage: Passage) -> str:
    """The sentence; with others of its passage where it is short, or holds nothing of the question."""
    said = [sentence.text for sentence in sentences_of(passage.text) if not sentence.question]
    if best.sentence.text not in said:
        return best.sentence.text
    place = said.index(best.sentence.text)
    if not best.direct:
        place = max(0, place - 1)
        return " ".join(said[place : place + 3])
    return " ".join(said[place : place + 2]) if len(best.sentence.text.split()) < _SHORT else best.sentence.text


def _reply(asked: Asked, candidates: Sequence[Candidate], replies: Sequence[Candidate]) -> str:
    """What the assistant said: the beginning of the reply that matches, by itself or by what it replies to.

    Where the question asks for a value, the first sentence of the reply with one that was not in what it replies to.
    """
    match: dict[int, float] = {}
    for one in candidates:
        match[one.passage] = max(match.get(one.passage, 0.0), one.reach)
    matched = {one.passage: max(match[one.passage], match.get(one.passage - 1, 0.0)) for one in replies}
    best = min(place for place in matched if matched[place] >= _FIRST_REPLY * max(matched.values()))
    said = [one.sentence for one in replies if one.passage == best]
    if asked.kind:
        before = " ".join(one.sentence.text for one in candidates if one.passage == best - 1)
        for sentence in said:
            if any(value not in before for value in found(asked.kind, sentence.text)):
                return sentence.text
    stated = [sentence.text for sentence in said if not sentence.question] or [said[0].text]
    return " ".join(stated[:2])
