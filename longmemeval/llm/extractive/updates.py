"""Which of several statements holds: the best one, or a later one that brings it up to date."""

from collections.abc import Iterator, Sequence

from longmemeval.llm.extractive.asked import Asked
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.sentences import Sentence, sentences_of
from longmemeval.llm.extractive.values import holds, is_value

_NEAR_EQUAL = 0.9
"""Among statements with at least this share of the best score the latest counts."""
_ENOUGH_OF_ONES_OWN = 0.5
"""With at least this share of the score, a statement about the one asked about is preferred to one about another."""
_ABOUT_ANOTHER_SPEAKER = 1.5
_ABOUT_ANOTHER_PERSON = 4.0
"""Where a statement about another matches so many times better than the best one, nothing was said of the one asked
about; a user mentions others more often in passing than two people who talk take over each other's words."""

# How much of an earlier statement a later one has to share to be about the same matter, 0 to 1.
_SHARED = 0.1
_SHARED_BY_UPDATE = 0.07
_SHARED_WITHOUT_VALUE = 0.2
_OF_SESSION = 0.5
"""What a shared word counts that stands elsewhere in the later statement's session."""


def choose(asked: Asked, matcher: Matcher, candidates: Sequence[Candidate]) -> Candidate | None:
    """The statement that answers; None where what matches is about somebody else."""
    stated = [one for one in candidates if not one.sentence.question] or list(candidates)
    own = [one for one in stated if not one.foreign]
    best = max(stated, key=lambda one: one.score)
    if best.foreign and own:
        mine = max(own, key=lambda one: one.score)
        best = mine if mine.score >= _ENOUGH_OF_ONES_OWN * best.score else best
    surest = max(stated, key=lambda one: one.reach)
    most = _ABOUT_ANOTHER_SPEAKER if matcher.names else _ABOUT_ANOTHER_PERSON
    if best.foreign or (surest.foreign and surest.reach > most * best.reach):
        return None
    good = [one for one in own if one.score >= _NEAR_EQUAL * best.score]
    latest = max(one.passage for one in good)
    best = max((one for one in good if one.passage == latest), key=lambda one: one.score)
    return best if asked.past else _brought_up_to_date(asked, matcher, best)


def _brought_up_to_date(asked: Asked, matcher: Matcher, best: Candidate) -> Candidate:
    """The latest statement of the same speaker about the same matter, with a value of the kind that is asked for.

    Of the same matter are statements that share words with the earlier one and the question, the rarer the more, apart
    from numbers and dates; so a change is found that is told in other words than the question's.
    """
    words = frozenset(word for word in best.sentence.words | asked.words if not is_value(word))
    weights, forms = matcher.weights(words), matcher.forms(words)
    newest, rank = best, (best.session, 0.0)
    for session, place, sentence in _later(matcher, best):
        if sentence.other and not sentence.partly:
            continue
        if not (holds(asked.kind, sentence.text) if asked.kind else sentence.update):
            continue
        around = frozenset().union(*matcher.held[matcher.sessions[session].start : matcher.sessions[session].stop])
        whole, own = matcher.strengths(around, forms), matcher.strengths(sentence.words, forms)
        # Sorted, so that the sum never differs.
        shared = sum(weights[word] * max(own.get(word, 0.0), _OF_SESSION * whole[word]) for word in sorted(whole))
        if asked.kind is None:
            enough = shared >= _SHARED_WITHOUT_VALUE
        elif sentence.update:
            enough = shared >= _SHARED_BY_UPDATE
        else:
            enough = shared >= _SHARED and len(whole) >= 2 and bool(own)
        if enough and (session, shared) > rank:
            passage, rank = matcher.passages[place], (session, shared)
            newest = Candidate(
                0.0, 0.0, 0.0, session, place, sentence, passage.date, passage.speaker, foreign=False, direct=bool(own)
            )
    return newest


def _later(matcher: Matcher, earlier: Candidate) -> Iterator[tuple[int, int, Sentence]]:
    """What the same speaker states in later sessions."""
    for session in range(earlier.session + 1, len(matcher.sessions)):
        for place in matcher.sessions[session]:
            if matcher.passages[place].speaker == earlier.speaker:
                for sentence in sentences_of(matcher.passages[place].text):
                    if not sentence.question:
                        yield session, place, sentence
