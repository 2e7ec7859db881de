"""Tastes of a user who asks for advice, in their own words."""

import re

from longmemeval.llm.extractive.matching import Matcher
from longmemeval.llm.extractive.parsed_question import ParsedQuestion
from longmemeval.llm.extractive.sentences import sentences_of

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
    for number, session in enumerate(matcher.sessions):
        for place in session:
            passage = matcher.passages[place]
            if passage.speaker.lower() == "assistant":
                continue
            statements = [sentence for sentence in sentences_of(passage.text) if not sentence.question]
            liking = sum(
                len(_TASTE.findall(sentence.text)) * (1.0 if sentence.first_person else _OF_OTHERS)
                for sentence in statements
            )
            score = liking * (_IN_PASSING + relevant.get(number, 0.0))
            if score > best_score:
                best, best_score = " ".join(sentence.text for sentence in statements), score
    return best
