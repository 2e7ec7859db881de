"""What one who asks for advice likes, in their own words."""

import re

from longmemeval.llm.extractive.asked import Asked
from longmemeval.llm.extractive.matching import Matcher
from longmemeval.llm.extractive.sentences import sentences_of

_TASTE = re.compile(
    r"\b(?:lov(?:e|es|ed)|likes?|prefer|enjoy|hates?|favou?rites?|rather|never|always|only|can't stand|can't look|"
    r"(?:for|suits?|keeps?|makes?|wears?|bores?|ruins?) (?:me|us|my)|nothing else|my sort|"
    r"no [\w-]+, no|all i (?:need|want)|reject)\b",
    re.IGNORECASE,
)
_IN_PASSING = 0.1
"""What a taste counts where its session holds no word of the question."""
_OF_OTHERS = 0.7


def taste(asked: Asked, matcher: Matcher) -> str | None:
    """The message that says most of what its speaker likes, in sessions about the question's matter before others."""
    relevant: dict[int, float] = {}
    for one in matcher.candidates(asked):
        relevant[one.session] = max(relevant.get(one.session, 0.0), one.coverage)
    best, best_score = None, 0.0
    for number, session in enumerate(matcher.sessions):
        for place in session:
            passage = matcher.passages[place]
            if passage.speaker.lower() == "assistant":
                continue
            said = [sentence for sentence in sentences_of(passage.text) if not sentence.question]
            liking = sum(
                len(_TASTE.findall(sentence.text)) * (1.0 if sentence.first_person else _OF_OTHERS) for sentence in said
            )
            score = liking * (_IN_PASSING + relevant.get(number, 0.0))
            if score > best_score:
                best, best_score = " ".join(sentence.text for sentence in said), score
    return best
