"""Finding the answer to a question in recalled passages by rules."""

import re
from collections.abc import Sequence
from datetime import datetime

from longmemeval.llm.extractive import times
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.parsed_question import ParsedQuestion, parse_question
from longmemeval.llm.extractive.sentences import sentences_of
from longmemeval.llm.extractive.totals import total
from longmemeval.llm.extractive.updates import choose
from longmemeval.llm.extractive.values import values_of
from longmemeval.llm.protocol import Passage

LEAST_COVERAGE = 0.5
"""A question is answered if one session contains at least this share of its words, related forms included."""
_FIRST_REPLY = 0.6
"""The earliest reply with at least this share of the best match counts: advice is given first and then discussed."""
_SHORT = 8
"""A sentence of fewer words is quoted together with the next one."""


def find_answer(question: str, passages: Sequence[Passage], question_date: datetime | None = None) -> str | None:
    """Return the answer to a question, quoted from the passages or derived from their values and dates.

    Args:
        passages: recalled texts, oldest first. Without dates each stands alone, and nothing is derived from dates.
        question_date: date of the question.

    Returns:
        One to three sentences, or a value; None if nothing answers the question.
    """
    parsed, matcher = parse_question(question), Matcher(passages)
    if parsed.advice:
        return taste(parsed, matcher)
    compared = times.compare(parsed, matcher, question_date)
    if compared is not None:
        return compared or None
    every = matcher.candidates(parsed)
    candidates = [candidate for candidate in every if candidate.coverage >= LEAST_COVERAGE]
    if parsed.total and (whole := total(parsed, matcher, every if candidates else ())):
        return whole
    if not candidates:
        return None
    if parsed.about_assistant and (
        replies := [candidate for candidate in candidates if candidate.speaker.lower() == "assistant"]
    ):
        return _reply(parsed, candidates, replies)
    best = choose(parsed, matcher, candidates)
    if best is None:
        return None
    if parsed.kind == "date":
        return times.day_named(best) or best.sentence.text
    return best.sentence.text if parsed.kind else _quote(best, passages[best.passage])


def _quote(best: Candidate, passage: Passage) -> str:
    """Return the sentence, with others of its passage if it is short or contains no word of the question."""
    sentences = [sentence.text for sentence in sentences_of(passage.text) if not sentence.question]
    if best.sentence.text not in sentences:
        return best.sentence.text
    place = sentences.index(best.sentence.text)
    if not best.direct:
        place = max(0, place - 1)
        return " ".join(sentences[place : place + 3])
    return " ".join(sentences[place : place + 2]) if len(best.sentence.text.split()) < _SHORT else best.sentence.text


def _reply(parsed: ParsedQuestion, candidates: Sequence[Candidate], replies: Sequence[Candidate]) -> str:
    """Return the start of the assistant's reply that matches, by itself or by the message it replies to.

    If the question asks for a value, return the reply's first sentence with a value that was not in that message.
    """
    match: dict[int, float] = {}
    for candidate in candidates:
        match[candidate.passage] = max(match.get(candidate.passage, 0.0), candidate.reach)
    matched = {
        candidate.passage: max(match[candidate.passage], match.get(candidate.passage - 1, 0.0)) for candidate in replies
    }
    best = min(place for place in matched if matched[place] >= _FIRST_REPLY * max(matched.values()))
    sentences = [candidate.sentence for candidate in replies if candidate.passage == best]
    if parsed.kind:
        before = " ".join(candidate.sentence.text for candidate in candidates if candidate.passage == best - 1)
        for sentence in sentences:
            if any(value not in before for value in values_of(parsed.kind, sentence.text)):
                return sentence.text
    stated = [sentence.text for sentence in sentences if not sentence.question] or [sentences[0].text]
    return " ".join(stated[:2])


_TASTE = re.compile(
    r"\b(?:lov(?:e|es|ed)|likes?|prefer|enjoy|hates?|favou?rites?|rather|never|always|only|can't stand|can't look|"
    r"(?:for|suits?|keeps?|makes?|wears?|bores?|ruins?) (?:me|us|my)|nothing else|my sort|"
    r"no [\w-]+, no|all i (?:need|want)|reject)\b",
    re.IGNORECASE,
)
_IN_PASSING = 0.1
"""Weight of a taste whose session contains no word of the question."""
_OF_OTHERS = 0.7


def taste(question: ParsedQuestion, matcher: Matcher) -> str | None:
    """Return the message that says most about its speaker's likes, preferably from sessions about the question."""
    relevant: dict[int, float] = {}
    for candidate in matcher.candidates(question):
        relevant[candidate.session] = max(relevant.get(candidate.session, 0.0), candidate.coverage)
    best, best_score = None, 0.0
    for position, session in enumerate(matcher.sessions):
        for place in session:
            passage = matcher.passages[place]
            if passage.speaker.lower() == "assistant":
                continue
            statements = [sentence for sentence in sentences_of(passage.text) if not sentence.question]
            liking = sum(
                len(_TASTE.findall(sentence.text)) * (1.0 if sentence.first_person else _OF_OTHERS)
                for sentence in statements
            )
            score = liking * (_IN_PASSING + relevant.get(position, 0.0))
            if score > best_score:
                best, best_score = " ".join(sentence.text for sentence in statements), score
    return best
